#include "thinwire/transport/nats/nkey.h"

#include <algorithm>
#include <span>

#include "thinwire/transport/nats/base32.h"

namespace thinwire::transport {
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

std::optional<PublicKey> decode_public_key(NKeyKind kind, std::string_view text) {
  const auto key = decode(public_prefix(kind), text);
  return key ? std::optional(PublicKey{*key}) : std::nullopt;
}

std::optional<Seed> decode_seed(NKeyKind kind, std::string_view text) {
  return decode(seed_prefix(kind), text);
}

}  // namespace thinwire::transport
