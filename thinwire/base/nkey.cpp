#include "thinwire/base/nkey.h"

#include <algorithm>
#include <span>

namespace thinwire {
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

namespace {

constexpr uint8_t kSeed = 18 << 3;
using KeyBytes = std::array<uint8_t, 32>;

Bytes public_prefix(NKeyKind kind) { return {static_cast<uint8_t>(kind)}; }

// The kind is moved by five bits, so that a seed begins with S and then the kind's letter.
Bytes seed_prefix(NKeyKind kind) {
  const auto bits = static_cast<uint8_t>(kind);
  return {static_cast<uint8_t>(kSeed | bits >> 5), static_cast<uint8_t>((bits & 31) << 3)};
}

std::string encode(Bytes bytes, const KeyBytes& key) {
  bytes.insert(bytes.end(), key.begin(), key.end());
  const uint16_t check = crc16(bytes);
  ByteWriter(bytes).put(check);
  return encode_base32(bytes);
}

std::optional<KeyBytes> decode(const Bytes& prefix, std::string_view text) {
  KeyBytes key;
  const size_t checked = prefix.size() + key.size();
  const auto bytes = decode_base32(text);
  if (!bytes || bytes->size() != checked + sizeof(uint16_t)) return std::nullopt;
  const std::span<const uint8_t> all(*bytes);
  if (!std::ranges::equal(all.first(prefix.size()), prefix)) return std::nullopt;
  if (ByteReader(all.subspan(checked)).get<uint16_t>() != crc16(all.first(checked))) {
    return std::nullopt;
  }
  std::ranges::copy(all.subspan(prefix.size(), key.size()), key.begin());
  return key;
}

}  // namespace

std::string encode_public_key(NKeyKind kind, const PublicKey& key) {
  return encode(public_prefix(kind), key.bytes);
}

std::string encode_seed(NKeyKind kind, const Seed& seed) { return encode(seed_prefix(kind), seed); }

std::string participant_name(const PublicKey& key) {
  return encode_public_key(NKeyKind::kUser, key);
}

std::string key_id(const PublicKey& key) {
  constexpr size_t kLength = 10;
  return participant_name(key).substr(1, kLength);
}

std::optional<PublicKey> decode_public_key(NKeyKind kind, std::string_view text) {
  const auto key = decode(public_prefix(kind), text);
  return key ? std::optional(PublicKey{*key}) : std::nullopt;
}

std::optional<Seed> decode_seed(NKeyKind kind, std::string_view text) {
  return decode(seed_prefix(kind), text);
}

}  // namespace thinwire
