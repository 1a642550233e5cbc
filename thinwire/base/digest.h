// Hashes for integrity and agreement, not for security against an adversary.
#pragma once

#include <cstdint>
#include <span>
#include <string>

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

}  // namespace thinwire
