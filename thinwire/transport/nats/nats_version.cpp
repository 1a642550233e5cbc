// Which versions of nats-server are used (nats_server.h).
#include <fmt/format.h>

#include <charconv>

#include "thinwire/base/error.h"
#include "thinwire/base/process.h"
#include "thinwire/transport/nats/nats_server.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kVersionPrefix = "nats-server: v";

std::string text_of(const NatsVersion& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

}  // namespace

std::optional<NatsVersion> parse_nats_version(std::string_view text) {
  if (!text.starts_with(kVersionPrefix)) return std::nullopt;
  text.remove_prefix(kVersionPrefix.size());
  NatsVersion version;
  const char *at = text.data(), *end = at + text.size();
  for (int* number : {&version.major, &version.minor, &version.patch}) {
    if (number != &version.major && (at == end || *at++ != '.')) return std::nullopt;
    const auto [stop, error] = std::from_chars(at, end, *number);
    if (error != std::errc() || *number < 0) return std::nullopt;
    at = stop;
  }
  return version;
}

std::optional<NatsVersion> check_nats_version(const std::string& program) {
  const auto version = parse_nats_version(run_process({program, "--version"}, "").text);
  if (version && *version < kOldestNats) {
    throw UsageError(
        fmt::format("nats-server {} ({}) may lose stored messages after a kill or a power cut; it "
                    "has to be {} or later, "
                    "better {}: install that, or put the program beside thinwire",
                    text_of(*version), program, text_of(kOldestNats), text_of(kSafeNats)));
  }
  return version;
}

std::string describe_nats(const std::string& program, const std::optional<NatsVersion>& version) {
  if (!version) return fmt::format("nats-server of an unknown version ({})", program);
  std::string text = fmt::format("nats-server {} ({})", text_of(*version), program);
  if (*version < kSafeNats) {
    text += fmt::format(
        "; before {}, a crash or a power cut may cost it what it has stored: docs/security.md",
        text_of(kSafeNats));
  }
  return text;
}

}  // namespace thinwire::transport
