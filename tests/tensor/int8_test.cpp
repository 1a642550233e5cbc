// Weights in linear codes of 8 bits (tensor/kernels/encoded.h).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/tensor/targets.h"
#include "thinwire/base/rng.h"
#include "thinwire/tensor/files/safetensors.h"
#include "thinwire/tensor/kernels/encoded.h"

namespace thinwire::tensor {
namespace {

std::vector<uint8_t> in_int8(std::span<const float> values) {
  std::vector<uint8_t> bytes(static_cast<size_t>(int8_bytes(std::ssize(values))), 0xee);
  encode_int8(values, bytes.data());
  return bytes;
}

template <typename T = float>
std::vector<T> from_int8(const std::vector<uint8_t>& encoded, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  decode_int8({encoded.data(), 1, count}, 0, 1, 0, count, values.data());
  return values;
}

// Blocks of several magnitudes, the last one not whole.
std::vector<float> normal_values(int64_t count) {
  Rng rng(1, 2);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(rng.normal() * std::pow(10, i / 64 % 5)));
  }
  return values;
}

class Int8 : public OnEachTarget {};

INSTANTIATE_TEST_SUITE_P(Targets, Int8, testing::ValuesIn(compiled_targets()),
                         [](const auto& target) { return target_name(target.param); });

TEST_P(Int8, HasTheBitsOfTheGoldenTrace) {
  const SafetensorsReader golden(tests::source_file("tests/golden/int8.safetensors"));
  for (const std::string name : {"normal", "edges", "long", "zeros"}) {
    const std::vector<float> values = golden.read_f32("values." + name);
    const std::vector<float> decoded = golden.read_f32("decoded." + name);
    std::vector<uint8_t> expected(static_cast<size_t>(int8_bytes(std::ssize(values))));
    golden.read_bytes("encoded." + name, DType::kU8, expected);
    EXPECT_EQ(in_int8(values), expected) << name;
    EXPECT_EQ(from_int8(expected, std::ssize(values)), decoded) << name;
    const std::vector<Bf16> rounded = from_int8<Bf16>(expected, std::ssize(values));
    for (size_t i = 0; i < rounded.size(); ++i) {
      ASSERT_EQ(rounded[i].bits, to_bf16(decoded[i]).bits) << name << " " << i;
    }
  }
}

// Wherever a panel begins and ends in the blocks.
TEST_P(Int8, DecodesPanels) {
  for (const int64_t columns : {64, 100, 7}) {
    const int64_t rows = 9;
    const std::vector<uint8_t> encoded = in_int8(normal_values(rows * columns));
    const std::vector<float> whole = from_int8(encoded, rows * columns);
    for (const int64_t first : {int64_t{0}, columns / 3, columns - 1}) {
      const int64_t width = columns - first;
      std::vector<float> panel(static_cast<size_t>(5 * width));
      decode_int8({encoded.data(), rows, columns}, 3, 5, first, width, panel.data());
      for (int64_t i = 0; i < 5 * width; ++i) {
        ASSERT_EQ(panel[i], whole[(3 + i / width) * columns + first + i % width])
            << columns << ": " << first << ", " << i;
      }
    }
  }
}

TEST_P(Int8, OfAValueThatIsNotFiniteIsNotANumber) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> values(200, 1.0f);
    values[70] = bad;
    const std::vector<float> decoded = from_int8(in_int8(values), 200);
    for (size_t i = 0; i < decoded.size(); ++i) {
      ASSERT_EQ(std::isnan(decoded[i]), i / kInt8Block == 1) << bad << " " << i;
    }
  }
}

TEST(Int8Codes, AreOffByLessThanHalfAStep) {
  const std::vector<float> values = normal_values(10'000);
  const std::vector<float> decoded = from_int8(in_int8(values), std::ssize(values));
  for (size_t begin = 0; begin < values.size(); begin += kInt8Block) {
    const size_t end = std::min(values.size(), begin + kInt8Block);
    float largest = 0;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
    for (size_t i = begin; i < end; ++i) {
      ASSERT_LE(std::fabs(decoded[i] - values[i]), largest / 253) << i;
    }
  }
}

TEST(Int8Codes, TakeEightAndAHalfBits) {
  EXPECT_EQ(int8_bytes(1 << 20), (1 << 20) + (1 << 16));
  EXPECT_EQ(int8_bytes(1), 128);
}

}  // namespace
}  // namespace thinwire::tensor
