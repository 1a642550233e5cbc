// Working memory that is used again and again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace thinwire {

// The first `count` elements of `buffer`, which grows if it has fewer and never shrinks. Their
// values are left over from earlier uses.
template <typename T>
std::span<T> scratch(std::vector<T>& buffer, int64_t count) {
  const auto size = static_cast<size_t>(count);
  buffer.resize(std::max(buffer.size(), size));
  return std::span(buffer).first(size);
}

}  // namespace thinwire
