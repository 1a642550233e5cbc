#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "tests/tensor/reference.h"
#include "tests/tensor/targets.h"
#include "thinwire/base/rng.h"
#include "thinwire/tensor/files/safetensors.h"
#include "thinwire/tensor/kernels/encoded.h"

namespace thinwire::tensor {
namespace {

std::vector<uint8_t> encode(std::span<const float> values) {
  std::vector<uint8_t> bytes(static_cast<size_t>(nf4_bytes(std::ssize(values))), 0xee);
  encode_nf4(values, bytes.data());
  return bytes;
}

template <typename T = float>
std::vector<T> decode(const std::vector<uint8_t>& encoded, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  decode_nf4({encoded.data(), 1, count}, 0, 1, 0, count, values.data());
  return values;
}

std::vector<uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// So many values, normal ones and blocks of every kind: all alike, all zero, one huge, tiny.
std::vector<float> every_block(int64_t count) {
  Rng rng(1, 2);
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const auto normal = static_cast<float>(rng.normal());
    const float kinds[] = {normal, 0, 0.7f, i % 64 == 17 ? 1e30f : normal, normal * 1e-42f};
    values.push_back(kinds[i / 64 % 9 < 5 ? i / 64 % 9 : 0]);
  }
  return values;
}

class Nf4 : public OnEachTarget {};

INSTANTIATE_TEST_SUITE_P(Targets, Nf4, testing::ValuesIn(compiled_targets()),
                         [](const auto& target) { return target_name(target.param); });

TEST_P(Nf4, HasTheBitsOfThePlainCode) {
  for (const int64_t count : {1, 63, 64, 65, 1000, 16'384, 16'385, 40'001}) {
    const std::vector<float> values = every_block(count);
    const std::vector<uint8_t> encoded = encode(values);
    ASSERT_EQ(encoded, reference::encode_nf4(values)) << count;
    const std::vector<float> expected = reference::decode_nf4(encoded, count);
    ASSERT_EQ(bits_of(decode(encoded, count)), bits_of(expected)) << count;
    const std::vector<Bf16> rounded = decode<Bf16>(encoded, count);
    for (size_t i = 0; i < rounded.size(); ++i) {
      ASSERT_EQ(rounded[i].bits, to_bf16(expected[i]).bits) << i << " of " << count;
    }
  }
}

TEST_P(Nf4, HasTheBitsOfTheGoldenTrace) {
  const SafetensorsReader golden(tests::source_file("tests/golden/nf4.safetensors"));
  EXPECT_EQ(golden.read_f32("code_book"),
            std::vector<float>(nf4_values().begin(), nf4_values().end()));
  const std::vector<float> scales = golden.read_f32("scale_book");
  EXPECT_TRUE(std::ranges::equal(scales, nf4_scale_values()));
  for (const std::string name : {"normal", "edges", "long", "zeros"}) {
    const std::vector<float> values = golden.read_f32("values." + name);
    std::vector<uint8_t> expected(static_cast<size_t>(nf4_bytes(std::ssize(values))));
    golden.read_bytes("encoded." + name, DType::kU8, expected);
    EXPECT_EQ(encode(values), expected) << name;
    EXPECT_EQ(bits_of(decode(expected, std::ssize(values))),
              bits_of(golden.read_f32("decoded." + name)))
        << name;
  }
}

// Wherever a panel begins and ends in the blocks.
TEST_P(Nf4, DecodesPanels) {
  for (const int64_t columns : {64, 100, 7}) {
    const int64_t rows = 9;
    const std::vector<uint8_t> encoded = encode(every_block(rows * columns));
    const std::vector<float> whole = decode(encoded, rows * columns);
    for (const int64_t first : {int64_t{0}, columns / 3, columns - 1}) {
      for (const int64_t width : {int64_t{1}, columns - first}) {
        std::vector<float> panel(static_cast<size_t>(5 * width));
        decode_nf4({encoded.data(), rows, columns}, 3, 5, first, width, panel.data());
        for (int64_t i = 0; i < 5 * width; ++i) {
          ASSERT_EQ(panel[i], whole[(3 + i / width) * columns + first + i % width])
              << columns << ": " << first << ", " << width << ", " << i;
        }
      }
    }
  }
}

TEST_P(Nf4, OfAValueThatIsNotFiniteIsNotANumber) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::vector<float> values(1000, 1.0f);
    values[700] = bad;
    for (const float value : decode(encode(values), 1000)) ASSERT_TRUE(std::isnan(value)) << bad;
  }
}

TEST(Nf4Codes, AreOffByLessThanHalfTheWidestGap) {
  Rng rng(3, 4);
  std::vector<float> values;
  for (int i = 0; i < 50'000; ++i) {
    values.push_back(static_cast<float>(rng.normal() * (1 + i / 5000)));
  }
  const std::vector<float> decoded = decode(encode(values), std::ssize(values));
  std::vector<float> scales;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % kNf4Block == 0) scales.push_back(0);
    scales.back() = std::max(scales.back(), std::fabs(values[i]));
  }
  double mean = 0;
  for (const float scale : scales) mean += scale / static_cast<double>(scales.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t block = i / kNf4Block;
    double widest = 0;
    for (size_t s = block / kNf4ScaleBlock * kNf4ScaleBlock;
         s < std::min(scales.size(), (block / kNf4ScaleBlock + 1) * kNf4ScaleBlock); ++s) {
      widest = std::max(widest, std::fabs(scales[s] - mean));
    }
    ASSERT_LE(std::fabs(decoded[i] - values[i]), 0.152 * scales[block] + 0.00704 * widest) << i;
  }
}

TEST(Nf4Codes, TakeLittleMoreThanFourBits) {
  constexpr int64_t kCount = 4096 * 4096;
  EXPECT_NEAR(8.0 * nf4_bytes(kCount) / kCount, 4 + 8.0 / 64 + 32.0 / (64 * 256), 1e-4);
  EXPECT_EQ(nf4_bytes(1), 64);
}

}  // namespace
}  // namespace thinwire::tensor
