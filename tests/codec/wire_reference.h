// A buffer after encoding and decoding, computed value by value: the reference with which the
// codecs are compared, bit for bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/wire.h"

namespace thinwire::codec {

// The nearest of ascending `levels` to a magnitude; a tie goes to the larger, or to the even index.
inline size_t nearest_level(const std::vector<double>& levels, double magnitude,
                            bool ties_to_even) {
  size_t best = 0;
  for (size_t i = 1; i < levels.size(); ++i) {
    const double gain = std::abs(levels[best] - magnitude) - std::abs(levels[i] - magnitude);
    if (gain > 0 || (gain == 0 && (!ties_to_even || i % 2 == 0))) best = i;
  }
  return best;
}

inline std::vector<double> e4m3_levels() {
  std::vector<double> levels;
  for (int code = 0; code < 0x7f; ++code) {
    const int exponent = code >> 3;
    const double mantissa = (code & 7) + (exponent == 0 ? 0 : 8);
    levels.push_back(std::ldexp(mantissa, std::max(exponent, 1) - 10));
  }
  return levels;
}

inline float fp8_value(float x, float scale) {
  static const std::vector<double> levels = e4m3_levels();
  const float by = 448.0f / scale;
  const size_t code = nearest_level(levels, std::abs(x * by), true);
  return code == 0 ? 0 : std::copysign(static_cast<float>(levels[code]) * (scale / 448.0f), x);
}

inline float fp4_value(float x, float scale) {
  std::vector<double> levels = {0};
  for (int e = 1; e <= 7; ++e) levels.push_back(std::ldexp(double{scale}, e - 7));
  const size_t code = nearest_level(levels, std::abs(x), false);
  return code == 0 ? 0 : std::copysign(static_cast<float>(levels[code]), x);
}

inline float int2_value(float x, float scale) {
  const float magnitude = std::abs(x) < 1.25f * scale ? scale / 2 : 2 * scale;
  return x < 0 ? -magnitude : magnitude;
}

inline float block_scale(WireType type, std::span<const float> block) {
  if (type == WireType::kInt2 || type == WireType::kInt1) {
    float lanes[16] = {};
    for (size_t i = 0; i < block.size(); ++i) lanes[i % 16] += std::abs(block[i]);
    for (const int half : {8, 4, 2, 1}) {
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0] / static_cast<float>(block.size());
  }
  float largest = 0;
  for (const float value : block) largest = std::max(largest, std::abs(value));
  return largest;
}

inline std::vector<float> reference_as_received(WireType type, std::span<const float> values) {
  std::vector<float> received(values.size());
  for (size_t first = 0; first < values.size(); first += 256) {
    const auto block = values.subspan(first, std::min<size_t>(256, values.size() - first));
    const float exact = block_scale(type, block);
    const float scale = exact < 0x1p-100f ? 0 : round_to_bf16(exact);
    for (size_t i = 0; i < block.size() && scale > 0; ++i) {
      float& to = received[first + i];
      if (type == WireType::kFp8) to = fp8_value(block[i], scale);
      if (type == WireType::kFp4) to = fp4_value(block[i], scale);
      if (type == WireType::kInt2) to = int2_value(block[i], scale);
      if (type == WireType::kInt1) to = block[i] < 0 ? -scale : scale;
    }
  }
  return received;
}

}  // namespace thinwire::codec
