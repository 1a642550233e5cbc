#include "thinwire/base/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <iterator>

#include "thinwire/base/error.h"

namespace thinwire {

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

}  // namespace thinwire
