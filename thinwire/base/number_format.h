// Number formats: those in which weights and optimizer state are kept between steps (recipe fields
// train.weights, optim.state and optim.bases; docs/memory.md), where arithmetic is fp32 in any
// case, and those of the operands of matrix products (train.precision).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "thinwire/base/block_sizes.h"

namespace thinwire {

// kAuto: bf16 where the device multiplies it faster than fp32, else fp32.
enum class Precision : uint8_t { kFp32, kBf16, kAuto };
inline constexpr std::string_view kPrecisionNames[] = {"fp32", "bf16", "auto"};
constexpr std::span<const std::string_view> names_of(Precision) { return kPrecisionNames; }

// kNf4, kInt8: matrices of the blocks in 4 or 8 bits (tensor/kernels/encoded.h), all other tensors
// in bf16.
enum class WeightFormat : uint8_t { kF32, kBf16, kNf4, kInt8 };
inline constexpr std::string_view kWeightFormatNames[] = {"fp32", "bf16", "nf4", "int8"};
constexpr std::span<const std::string_view> names_of(WeightFormat) { return kWeightFormatNames; }
// Whether values of a tensor share what decodes them, so that only whole tensors can be encoded.
constexpr bool is_encoded(WeightFormat format) {
  return format == WeightFormat::kNf4 || format == WeightFormat::kInt8;
}

enum class StateFormat : uint8_t { kF32, kBf16, k8Bit };
inline constexpr std::string_view kStateFormatNames[] = {"fp32", "bf16", "8bit"};
constexpr std::span<const std::string_view> names_of(StateFormat) { return kStateFormatNames; }

// Values that share an exponent in k8Bit, and whose random bits share a key.
inline constexpr int64_t kStateBlock = 64;

constexpr int64_t state_blocks(int64_t count) { return (count + kStateBlock - 1) / kStateBlock; }

// Values in NF4 that share a scale, and scales that share the scale of their codes.
inline constexpr int64_t kNf4Block = 64, kNf4ScaleBlock = 256;

constexpr int64_t nf4_blocks(int64_t count) { return (count + kNf4Block - 1) / kNf4Block; }
constexpr int64_t nf4_scale_blocks(int64_t count) {
  return (nf4_blocks(count) + kNf4ScaleBlock - 1) / kNf4ScaleBlock;
}
// Bytes of memory for `count` values: codes and a scale's code for each block, a scale for each
// block of scales, and their mean; rounded up to a line of 64 bytes.
constexpr int64_t nf4_bytes(int64_t count) {
  const int64_t bytes = (kNf4Block / 2 + 1) * nf4_blocks(count) + 4 * nf4_scale_blocks(count) + 4;
  return (bytes + 63) / 64 * 64;
}

// Values in kInt8 that share a scale.
inline constexpr int64_t kInt8Block = 64;

constexpr int64_t int8_blocks(int64_t count) { return (count + kInt8Block - 1) / kInt8Block; }
// Bytes of memory for `count` values: codes and a scale for each block, rounded up to a line.
constexpr int64_t int8_bytes(int64_t count) {
  return ((kInt8Block + 4) * int8_blocks(count) + 63) / 64 * 64;
}

// Bytes of memory for a tensor of `count` values that are all in this format, alignment padding
// included.
constexpr int64_t weight_bytes(WeightFormat format, int64_t count) {
  switch (format) {
    case WeightFormat::kF32:
      return 4 * padded_elements(count);
    case WeightFormat::kBf16:
      return 2 * padded_elements(count);
    case WeightFormat::kNf4:
      return nf4_bytes(count);
    case WeightFormat::kInt8:
      return int8_bytes(count);
  }
  return 0;
}
constexpr int64_t state_bytes(StateFormat format, int64_t count) {
  switch (format) {
    case StateFormat::kF32:
      return 4 * padded_elements(count);
    case StateFormat::kBf16:
      return 2 * padded_elements(count);
    case StateFormat::k8Bit:
      return (kStateBlock + 1) * state_blocks(count);  // codes, and an exponent
  }
  return 0;
}

}  // namespace thinwire
