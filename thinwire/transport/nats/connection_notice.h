// The server's notices that a connection to it has begun (NatsSubjects::arrivals) or ended
// (departures): for a courier, statements of kServerParticipant on kArrivalTopic and
// kDepartureTopic. They are JSON, of which only what follows is read. Only coordinators receive
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/signature.h"

namespace thinwire::transport {

// No participant has this name, because their names are derived from their keys (nkey.h).
inline constexpr const char* kServerParticipant = "server";
inline constexpr const char* kArrivalTopic = "arrival";
inline constexpr const char* kDepartureTopic = "departure";

struct ConnectionNotice {
  PublicKey owner;          // who may have other connections
  uint64_t connection = 0;  // its number; a server gives each one once
  bool operator==(const ConnectionNotice&) const = default;
};

// Total: nothing for other bytes.
std::optional<ConnectionNotice> parse_connection_notice(std::span<const uint8_t> statement);

}  // namespace thinwire::transport
