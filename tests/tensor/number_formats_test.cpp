#include "thinwire/tensor/kernels/number_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/tensor/reference.h"
#include "tests/tensor/targets.h"
#include "thinwire/base/rng.h"

namespace thinwire::tensor {
namespace {

constexpr BlockCode kCodes[] = {BlockCode::kSigned, BlockCode::kMagnitude};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Blocks of every kind, the last one short: magnitudes over many binades, all alike, all zero, one
// huge, subnormal, the largest numbers, a single value.
std::vector<float> every_block(BlockCode code) {
  Rng rng(1, 2);
  std::vector<float> values;
  const auto block = [&](const auto& value) {
    for (int64_t i = 0; i < kStateBlock; ++i) {
      const auto next = static_cast<float>(value(i));
      values.push_back(code == BlockCode::kSigned ? next : std::fabs(next));
    }
  };
  for (int scale = -110; scale <= 120; scale += 23) {
    block([&](int64_t) { return std::ldexp(rng.normal(), scale); });
    block([&](int64_t i) { return std::ldexp(rng.normal(), scale - static_cast<int>(i) / 2); });
  }
  block([](int64_t) { return 0; });
  block([](int64_t i) { return i % 2 == 0 ? -0.0f : 0.0f; });
  block([](int64_t i) { return i == 17 ? 1e30f : 1e-10f; });
  block([](int64_t i) { return std::ldexp(static_cast<float>(i), -149); });
  block([](int64_t) { return 0x1.9p127f; });
  block([](int64_t i) { return i == 63 ? 1.99f : 0.0f; });
  block([](int64_t i) { return i < 32 ? 0x1p-100f : 0x1.8p-101f; });
  values.resize(values.size() + 37, 0.7f);
  return values;
}

struct Encoded {
  explicit Encoded(size_t count)
      : codes(static_cast<size_t>(state_blocks(static_cast<int64_t>(count)) * kStateBlock)),
        exponents(static_cast<size_t>(state_blocks(static_cast<int64_t>(count)))) {}
  std::vector<uint8_t> codes, exponents;
};

Encoded encode(BlockCode code, const std::vector<float>& values, uint64_t key, int64_t first = 0) {
  Encoded to(values.size());
  EXPECT_TRUE(encode_blocks(code, values.data(), static_cast<int64_t>(values.size()), key, first,
                            to.codes.data(), to.exponents.data()));
  return to;
}

std::vector<float> decode(BlockCode code, const Encoded& from, size_t count) {
  std::vector<float> values(count);
  decode_blocks(code, from.codes.data(), from.exponents.data(), static_cast<int64_t>(count),
                values.data());
  return values;
}

class NumberFormats : public OnEachTarget {};

INSTANTIATE_TEST_SUITE_P(Targets, NumberFormats, testing::ValuesIn(compiled_targets()),
                         [](const auto& target) { return target_name(target.param); });

TEST_P(NumberFormats, Bf16IsThatOfThePlainCode) {
  std::vector<float> values = every_block(BlockCode::kSigned);
  for (const float value : {kInfinity, -kInfinity, NAN, std::bit_cast<float>(0x7f800001u),
                            std::numeric_limits<float>::max()}) {
    values.push_back(value);
  }
  constexpr int64_t kFirst = 5 * kStateBlock;
  std::vector<Bf16> rounded(values.size());
  round_stochastically(values.data(), static_cast<int64_t>(values.size()), 42, kFirst,
                       rounded.data());
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t random = reference::random_bits(42, kFirst + static_cast<int64_t>(i));
    const Bf16 expected = reference::round_stochastically(values[i], random);
    ASSERT_EQ(rounded[i].bits, expected.bits) << i << ": " << values[i];
    ASSERT_EQ(std::isnan(to_float(rounded[i])), std::isnan(values[i]));
  }
  round_to_nearest(values.data(), static_cast<int64_t>(values.size()), rounded.data());
  std::vector<float> wide(values.size());
  widen(rounded.data(), static_cast<int64_t>(values.size()), wide.data());
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(rounded[i].bits, to_bf16(values[i]).bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(to_float(rounded[i])));
  }
}

TEST_P(NumberFormats, EightBitsAreThoseOfThePlainCode) {
  for (const BlockCode code : kCodes) {
    const std::vector<float> values = every_block(code);
    constexpr int64_t kFirst = 3 * kStateBlock;
    const Encoded encoded = encode(code, values, 7, kFirst);
    const std::vector<float> decoded = decode(code, encoded, values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t block = i / kStateBlock * kStateBlock;
      const size_t end = std::min(block + kStateBlock, values.size());
      const uint32_t exponent =
          reference::block_exponent(code, std::span(values).subspan(block, end - block));
      ASSERT_EQ(encoded.exponents[i / kStateBlock], exponent) << i;
      const uint32_t random = reference::random_bits(7, kFirst + static_cast<int64_t>(i));
      const uint8_t expected =
          exponent == 0 ? 0 : reference::encode(code, values[i], exponent, random);
      ASSERT_EQ(encoded.codes[i], expected) << i << ": " << values[i];
      const float value = reference::decode(code, expected, exponent);
      ASSERT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(value)) << i;
    }
  }
}

// Every code that an encoder writes is a number that it keeps.
TEST_P(NumberFormats, EightBitCodesAreKeptWhenEncodedAgain) {
  for (const BlockCode code : kCodes) {
    const std::vector<float> values = every_block(code);
    const std::vector<float> once = decode(code, encode(code, values, 1), values.size());
    EXPECT_EQ(decode(code, encode(code, once, 2), values.size()), once);
  }
}

TEST_P(NumberFormats, WhatIsNotFiniteIsRefused) {
  for (const BlockCode code : kCodes) {
    for (const float bad : {kInfinity, -kInfinity, NAN, std::numeric_limits<float>::max()}) {
      std::vector<float> values(150, 1.0f);
      values[149] = bad;
      Encoded to(values.size());
      EXPECT_FALSE(
          encode_blocks(code, values.data(), 150, 1, 0, to.codes.data(), to.exponents.data()))
          << bad;
    }
  }
}

TEST(EightBits, AreOffByLessThanAUnitOfTheirBinade) {
  for (const BlockCode code : kCodes) {
    const std::vector<float> values = every_block(code);
    const std::vector<float> decoded = decode(code, encode(code, values, 3), values.size());
    for (size_t block = 0; block < values.size(); block += kStateBlock) {
      const size_t end = std::min(values.size(), block + kStateBlock);
      float largest = 0;
      for (size_t i = block; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
      // The unit of the subnormal binade; of blocks that are too small the largest value.
      const float least =
          largest < 0x1p-100f ? largest : std::ldexp(largest, -13 - mantissa_bits(code));
      for (size_t i = block; i < end; ++i) {
        const float unit = std::ldexp(std::fabs(values[i]), -mantissa_bits(code));
        ASSERT_LE(std::fabs(decoded[i] - values[i]), std::max(unit, least)) << i << values[i];
      }
    }
  }
}

TEST(EightBits, OfSquaresNeverBecomeZero) {
  std::vector<float> values(64, 1e-30f);
  values[5] = 1e5f;
  values[6] = 0;
  const std::vector<float> decoded =
      decode(BlockCode::kMagnitude, encode(BlockCode::kMagnitude, values, 1), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(decoded[i] == 0, i == 6) << i;
}

TEST(EightBits, WithAnExponentThatNoEncoderWritesAreNotANumber) {
  for (const uint8_t exponent : {uint8_t{1}, uint8_t{26}, uint8_t{255}}) {
    const std::vector<uint8_t> codes(64, 9);
    float values[64];
    decode_blocks(BlockCode::kSigned, codes.data(), &exponent, 64, values);
    EXPECT_TRUE(std::isnan(values[63])) << int{exponent};
  }
}

// The mean over many keys, against its standard error.
template <typename Round>
void expect_unbiased(float value, double unit, const Round& round) {
  constexpr int kTries = 20'000;
  double sum = 0;
  for (int i = 0; i < kTries; ++i) sum += round(static_cast<uint64_t>(i)) - value;
  EXPECT_LE(std::fabs(sum / kTries), 4 * 0.5 * unit / std::sqrt(kTries)) << value;
}

TEST(StochasticRounding, IsUnbiased) {
  for (const float value : {1.0001f, 1.003f, 1.0078f, -3.3f, 1e-20f, 0.0f, 7.0f}) {
    expect_unbiased(value, std::ldexp(std::fabs(value), -7), [&](uint64_t key) {
      Bf16 rounded;
      round_stochastically(&value, 1, key, 0, &rounded);
      return static_cast<double>(to_float(rounded));
    });
  }
  for (const BlockCode code : kCodes) {
    for (const float value : {1.93f, 1.0f, 0.51f, 0.03f, 1e-4f, 3e-5f}) {
      const double unit = std::max<double>(std::ldexp(value, -3), 0x1p-17);
      expect_unbiased(value, unit, [&](uint64_t key) {
        const std::vector<float> values = {value, 1.9f};
        return static_cast<double>(decode(code, encode(code, values, key), 2)[0]);
      });
    }
  }
}

// Neighbours, and the same index in neighbouring blocks, tensors and steps, round independently.
TEST(StochasticRounding, TakesItsOwnBitsForEachValue) {
  const auto agreement = [](uint64_t key_a, int64_t shift_a, uint64_t key_b, int64_t shift_b) {
    int same = 0;
    constexpr int kValues = 64'000;
    for (int64_t i = 0; i < kValues; ++i) {
      const uint32_t a = reference::random_bits(key_a, i + shift_a);
      const uint32_t b = reference::random_bits(key_b, i + shift_b);
      same += (a ^ b) >> 31 == 0;
    }
    return static_cast<double>(same) / kValues;
  };
  const uint64_t key = rounding_key(1, 2, 3, 4);
  EXPECT_EQ(agreement(key, 0, key, 0), 1);
  const double bound = 4 * 0.5 / std::sqrt(64'000.0);
  EXPECT_NEAR(agreement(key, 0, key, 1), 0.5, bound);
  EXPECT_NEAR(agreement(key, 0, key, kStateBlock), 0.5, bound);
  EXPECT_NEAR(agreement(key, 0, rounding_key(1, 2, 3, 5), 0), 0.5, bound);
  EXPECT_NEAR(agreement(key, 0, rounding_key(1, 2, 4, 4), 0), 0.5, bound);
  EXPECT_NEAR(agreement(key, 0, rounding_key(1, 3, 3, 4), 0), 0.5, bound);
  EXPECT_NEAR(agreement(key, 0, rounding_key(2, 2, 3, 4), 0), 0.5, bound);
}

}  // namespace
}  // namespace thinwire::tensor
