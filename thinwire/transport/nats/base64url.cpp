#include "thinwire/transport/nats/base64url.h"

#include <algorithm>
#include <string_view>

namespace thinwire::transport {
namespace {

constexpr std::string_view kLetters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
constexpr size_t kGroup = 3;  // bytes that become four letters

}  // namespace

std::string encode_base64url(std::span<const uint8_t> bytes) {
  std::string text;
  for (size_t begin = 0; begin < bytes.size(); begin += kGroup) {
    const size_t count = std::min(kGroup, bytes.size() - begin);
    uint32_t bits = 0;
    for (size_t i = 0; i < kGroup; ++i) bits = bits << 8 | (i < count ? bytes[begin + i] : 0u);
    for (size_t i = 0; i <= count; ++i) text += kLetters[bits >> (18 - 6 * i) & 63];
  }
  return text;
}

}  // namespace thinwire::transport
