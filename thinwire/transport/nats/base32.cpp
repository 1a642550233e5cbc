#include "thinwire/transport/nats/base32.h"

namespace thinwire::transport {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

}  // namespace

std::string encode_base32(std::span<const uint8_t> bytes) {
  std::string text;
  uint32_t held = 0;
  int bits = 0;
  for (const uint8_t byte : bytes) {
    held = held << 8 | byte;
    for (bits += 8; bits >= 5; bits -= 5) text += kDigits[held >> (bits - 5) & 31];
  }
  if (bits > 0) text += kDigits[held << (5 - bits) & 31];
  return text;
}

std::optional<Bytes> decode_base32(std::string_view text) {
  Bytes bytes;
  uint32_t held = 0;
  int bits = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    held = held << 5 | static_cast<uint32_t>(value);
    bits += 5;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<uint8_t>(held >> bits));
  }
  // Too many digits, or unused bits of the last digit that are not zero.
  const bool clean = bits < 5 && (held & ((1u << bits) - 1)) == 0;
  return clean ? std::optional(bytes) : std::nullopt;
}

uint16_t crc16(std::span<const uint8_t> bytes) {
  uint16_t crc = 0;
  for (const uint8_t byte : bytes) {
    crc = static_cast<uint16_t>(crc ^ byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<uint16_t>((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
    }
  }
  return crc;
}

}  // namespace thinwire::transport
