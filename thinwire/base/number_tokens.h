// A number in the place of a text's class (regression): the four bytes of its fp32, least
// significant first, each as a token. Every vocabulary of at least 256 tokens can say it.
#pragma once

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "thinwire/base/error.h"

namespace thinwire {

inline constexpr size_t kNumberTokens = sizeof(float);

// Tokens in the place of what a model with this number of outputs learns of a text: one output is
// a number, several are classes.
inline size_t target_tokens(int64_t outputs) { return outputs == 1 ? kNumberTokens : 1; }

inline std::array<int32_t, kNumberTokens> tokens_of_number(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  std::array<int32_t, kNumberTokens> tokens;
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<int32_t>(bits >> (8 * i) & 0xFF);
  }
  return tokens;
}

// The number in the first kNumberTokens tokens. Throws Error unless they are the bytes of a finite
// number.
inline float number_of_tokens(std::span<const int32_t> tokens) {
  uint32_t bits = 0;
  bool bytes = tokens.size() >= kNumberTokens;
  for (size_t i = 0; bytes && i < kNumberTokens; ++i) {
    bytes = tokens[i] >= 0 && tokens[i] <= 0xFF;
    bits |= static_cast<uint32_t>(tokens[i]) << (8 * i);
  }
  const auto number = std::bit_cast<float>(bits);
  if (!bytes || !std::isfinite(number)) {
    throw Error("a text whose target is not a number; the data is of another kind or damaged");
  }
  return number;
}

}  // namespace thinwire
