// What the subjects and headers of messages from a NATS server say. Pure and total.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/transport/nats/nats_connection.h"

namespace thinwire::transport {

// Whether the server itself reports this status. A stored message may carry such a header from its
// author, but then it also carries the name of its stream.
bool has_status(const NatsMessage& message, std::string_view status);
// Whether the server says that there is no such message.
bool is_missing(const NatsMessage& message);

// The sequence of a record that was just stored in this store. Nothing if the headers are not the
// server's alone; such a message shows only that there may be a new record.
std::optional<uint64_t> announced_sequence(const NatsMessage& message, std::string_view store);

// The sequence of the message that was asked for; 0 if there is none. kRefused if it does not say.
Result<uint64_t> sequence_in(const NatsMessage& message, std::string_view store);

// What `parse` makes of the body of an answer, if one came.
template <typename Value>
Result<Value> parsed(const Result<NatsMessage>& answer,
                     Result<Value> (*parse)(std::span<const uint8_t>)) {
  if (!answer) return tl::unexpected(answer.error());
  return parse(answer->body);
}

// The number at the end of PREFIX.NUMBER, and the author in RUN.say.AUTHOR.TOPIC.
std::optional<uint64_t> number_of(const std::string& subject);
std::string author_of(const std::string& subject);
// Who says this; empty for a stored message, which the server sends wherever somebody asks it to.
std::string speaker_of(const NatsMessage& message);

}  // namespace thinwire::transport
