// What a run's server says when a connection to it has ended (nats_config.h): a statement of
// kServerParticipant on kDepartureTopic, in JSON, of which only the user is read. Only coordinators
// hear it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/signature.h"

namespace thinwire::transport {

// No participant has this name, because theirs follow from their keys (nkey.h).
inline constexpr const char* kServerParticipant = "server";
inline constexpr const char* kDepartureTopic = "departure";

// Whose connection has ended; the same participant may have another one. Total: nothing for
// anything else.
std::optional<PublicKey> departed(std::span<const uint8_t> statement);

}  // namespace thinwire::transport
