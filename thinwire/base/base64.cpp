#include "thinwire/base/base64.h"

#include <openssl/evp.h>

namespace thinwire {
namespace {

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');  // and a NUL behind it
  EVP_EncodeBlock(bytes_of(text), bytes_of(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::optional<std::string> decode_base64(std::string_view text) {
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(bytes_of(bytes), bytes_of(text), static_cast<int>(text.size()));
  if (size < 0 || static_cast<size_t>(size) != bytes.size() || text.size() % 4 != 0) {
    return std::nullopt;
  }
  for (; text.ends_with('='); text.remove_suffix(1)) bytes.pop_back();
  return bytes;
}

}  // namespace thinwire
