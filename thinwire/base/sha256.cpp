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
