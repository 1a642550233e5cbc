// Bytes of golden files, in hexadecimal digits.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "thinwire/base/bytes.h"

namespace thinwire::transport {

inline Bytes bytes_in(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

template <size_t N>
std::array<uint8_t, N> array_of(const std::string& hex) {
  std::array<uint8_t, N> all{};
  std::ranges::copy(bytes_in(hex), all.begin());
  return all;
}

}  // namespace thinwire::transport
