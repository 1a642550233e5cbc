// Hashes: XXH3 for integrity and agreement, which is fast but does not protect against an
// adversary, and SHA-256.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace thinwire {

// XXH3, 64 bits.
uint64_t hash_bytes(std::span<const uint8_t> bytes, uint64_t seed = 0);

// The constants from which XXH3 derives its keys, for hashes that are computed elsewhere.
struct HashSecret {
  uint64_t words[24];  // little-endian
};
HashSecret hash_secret();

// Hash of data that arrives in pieces; the result does not depend on where the pieces are cut.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void update(std::span<const uint8_t> bytes);
  uint64_t value() const;

 private:
  void* state_;
};

// Bytes of the chunks of a large state (train/params_digest.h).
inline constexpr int64_t kDigestChunk = 65536;

// Digest of a large state as the sum of the hashes of its chunks, each seeded by its position.
// Chunks may be added in any order and from several partial digests, so every thread digests what
// it just wrote and the sum is the same on every replica.
class Digest {
 public:
  void add(uint64_t position, std::span<const uint8_t> chunk) {
    sum_ += hash_bytes(chunk, position);
  }
  void add(const Digest& part) { sum_ += part.sum_; }
  uint64_t value() const { return sum_; }

 private:
  uint64_t sum_ = 0;
};

// 16 lower-case hexadecimal digits.
std::string to_hex(uint64_t value);

// SHA-256 (FIPS 180-4): identifies bytes sent between hosts, so that a receiver can verify that it
// got the right ones.
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
