// Versions of nats-server, and what is known of those that lose what they have acknowledged.
// docs/security.md names the faults.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace thinwire::transport {

struct NatsVersion {
  int major = 0, minor = 0, patch = 0;
  auto operator<=>(const NatsVersion&) const = default;
};

// Older ones are refused: they may lose stored messages after a kill or a power cut.
inline constexpr NatsVersion kOldestNats{2, 9, 0};
// Older ones may lose messages when they or their machine crash.
inline constexpr NatsVersion kSafeNats{2, 10, 23};

// The version in what `nats-server --version` prints, "nats-server: v2.10.27"; nothing if it names
// none, as a build from a working tree does.
std::optional<NatsVersion> parse_nats_version(std::string_view text);

// The version of this program, which is run for it. Throws Error if it cannot be run, and
// UsageError, with what to do, if it is refused.
std::optional<NatsVersion> check_nats_version(const std::string& program);

// For the user: which server it is, and what is known to be wrong with it.
std::string describe_nats(const std::string& program, const std::optional<NatsVersion>& version);

}  // namespace thinwire::transport
