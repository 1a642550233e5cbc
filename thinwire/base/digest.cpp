#include "thinwire/base/digest.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <cstring>
#include <new>

namespace thinwire {

uint64_t hash_bytes(std::span<const uint8_t> bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

HashSecret hash_secret() {
  HashSecret secret{};
  static_assert(sizeof(secret) == sizeof(XXH3_kSecret));
  std::memcpy(&secret, XXH3_kSecret, sizeof(secret));
  return secret;
}

StreamHash::StreamHash() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(static_cast<XXH3_state_t*>(state_));
}

StreamHash::~StreamHash() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void StreamHash::update(std::span<const uint8_t> bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state_), bytes.data(), bytes.size());
}

uint64_t StreamHash::value() const {
  return XXH3_64bits_digest(static_cast<const XXH3_state_t*>(state_));
}

std::string to_hex(uint64_t value) { return fmt::format("{:016x}", value); }

}  // namespace thinwire
