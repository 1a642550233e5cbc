// What messages from a NATS server say by their subjects and headers. Pure and total.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "thinwire/transport/nats_connection.h"

namespace thinwire::transport {

// Whether the server says so itself: a stored message whose author gave it such a header has the
// name of its stream besides.
bool has_status(const NatsMessage& message, std::string_view status);
// There is no such message.
bool is_missing(const NatsMessage& message);

// The sequence of a record of this store that was just stored. Nothing where the headers are not
// the server's alone: then the message only shows that there may be one.
std::optional<uint64_t> announced_sequence(const NatsMessage& message, std::string_view store);

// The number at the end of PREFIX.NUMBER; the author of RUN.say.AUTHOR.TOPIC.
std::optional<uint64_t> number_of(const std::string& subject);
std::string author_of(const std::string& subject);

}  // namespace thinwire::transport
