// Interprets the subjects and headers of messages from a NATS server. Pure and total.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "thinwire/base/error.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

// Whether the server itself reports this status. A stored message may carry such a header from its
// author, but then it also carries the name of its stream.
bool has_status(const NatsMessage& message, std::string_view status);
// Whether the server reports that there is no such message.
bool is_missing(const NatsMessage& message);
// Whether no server can handle the request at the moment.
bool is_unserved(const NatsMessage& message);
// Whether it is a cluster's notice that another server leads a store from now on.
bool is_election(const NatsMessage& message);

// The sequence of a record that was just stored in this store. Nothing if the headers are not the
// server's alone; such a message shows only that there may be a new record.
std::optional<uint64_t> announced_sequence(const NatsMessage& message, std::string_view store);

// What `parse` makes of the body of an answer, if one came.
template <typename Parse>
auto parsed(const Result<NatsMessage>& answer, const Parse& parse) {
  using Parsed = std::invoke_result_t<const Parse&, std::span<const uint8_t>>;
  return answer ? parse(answer->body) : Parsed(tl::unexpected(answer.error()));
}

// The subject INBOX.NUMBER of the answer to a request, or INBOX.NUMBER-SENDING if the request was
// sent before; sendings count from 0.
struct AnswerPlace {
  uint64_t number = 0;
  size_t sending = 0;
};
std::string print_place(const std::string& inbox, const AnswerPlace& place);
std::optional<AnswerPlace> parse_place(std::string_view subject);
// INBOX.NUMBER of such a subject: the same for all sendings of a request.
std::string request_of(const std::string& subject);

// The author in RUN.say.AUTHOR.TOPIC.
std::string author_of(const std::string& subject);
// The author of this message; empty for a stored message, which the server sends to any subject
// that a request names.
std::string author_of_message(const NatsMessage& message);

}  // namespace thinwire::transport
