// SHA-256 (FIPS 180-4): identifies bytes sent between hosts, so that a receiver can verify that it
// got the right ones. base/digest.h is faster but does not protect against an adversary.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace thinwire {

struct Sha256 {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Sha256&) const = default;
};

// Any thread. Throws Error if the system's OpenSSL has no SHA-256.
Sha256 sha256(std::span<const uint8_t> bytes);

// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256& hash);
// The hash of such digits; nothing if the text is anything else.
std::optional<Sha256> parse_sha256(std::string_view digits);

}  // namespace thinwire
