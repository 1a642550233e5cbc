#include "thinwire/base/digest.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <openssl/evp.h>
#include <xxhash.h>

#include <cstring>
#include <iterator>
#include <new>

#include "thinwire/base/error.h"

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

Sha256 sha256(std::span<const uint8_t> bytes) {
  Sha256 hash;
  unsigned int length = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), hash.bytes.data(), &length, EVP_sha256(), nullptr) !=
      1) {
    throw Error("OpenSSL cannot compute SHA-256");
  }
  return hash;
}

std::string to_hex(const Sha256& hash) {
  std::string text;
  for (const uint8_t byte : hash.bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

std::optional<Sha256> parse_sha256(std::string_view digits) {
  Sha256 hash;
  if (digits.size() != 2 * hash.bytes.size()) return std::nullopt;
  for (size_t i = 0; i < digits.size(); ++i) {
    const size_t value = std::string_view("0123456789abcdef").find(digits[i]);
    if (value == std::string_view::npos) return std::nullopt;
    hash.bytes[i / 2] = static_cast<uint8_t>(hash.bytes[i / 2] << 4 | value);
  }
  return hash;
}

}  // namespace thinwire
