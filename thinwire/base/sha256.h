// SHA-256 (FIPS 180-4): names bytes that travel between hosts, so that whoever fetches them knows
// that they are the ones meant. Where nobody lies, base/digest.h is faster.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <span>
#include <string>

namespace thinwire {

struct Sha256 {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const Sha256&) const = default;
};

// Any thread. Throws Error where the system's OpenSSL has no SHA-256.
Sha256 sha256(std::span<const uint8_t> bytes);

// 64 lower-case hexadecimal digits.
std::string to_hex(const Sha256& hash);

}  // namespace thinwire
