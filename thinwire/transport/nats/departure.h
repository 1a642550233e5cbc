// The servers' notice that a connection to them has ended (NatsSubjects::departures): for a
// courier, a statement of kServerParticipant on kDepartureTopic. It is JSON, of which only the user
// is read. Only coordinators receive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/signature.h"

namespace thinwire::transport {

// No participant has this name, because their names are derived from their keys (nkey.h).
inline constexpr const char* kServerParticipant = "server";
inline constexpr const char* kDepartureTopic = "departure";

// Whose connection has ended; the same participant may have another one. Total: nothing for other
// bytes.
std::optional<PublicKey> departed(std::span<const uint8_t> statement);

}  // namespace thinwire::transport
