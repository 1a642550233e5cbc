#include "thinwire/codec/wire.h"

#include <gtest/gtest.h>

#include <limits>

#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"
#include "wire_reference.h"

namespace thinwire::codec {
namespace {

TEST(Wire, NamesRoundTrip) {
  for (const std::string_view name : kWireNames) {
    EXPECT_EQ(wire_name(*value_named<WireType>(name)), name);
  }
  EXPECT_FALSE(value_named<WireType>("fp16").has_value());
}

TEST(Wire, BytesAreScalesAndValues) {
  EXPECT_EQ(wire_bytes(WireType::kF32, 300), 1200u);
  EXPECT_EQ(wire_bytes(WireType::kBf16, 300), 600u);
  EXPECT_EQ(wire_bytes(WireType::kFp8, 300), 2 * 2 + 300u);
  EXPECT_EQ(wire_bytes(WireType::kFp4, 301), 2 * 2 + 128 + 23u);
  EXPECT_EQ(wire_bytes(WireType::kInt2, 301), 2 * 2 + 64 + 12u);
  EXPECT_EQ(wire_bytes(WireType::kInt1, 301), 2 * 2 + 32 + 6u);
  for (const auto type : {WireType::kF32, WireType::kFp4}) EXPECT_EQ(wire_bytes(type, 0), 0u);
}

TEST(Wire, ValuesFollowFromBytes) {
  for (const auto type : {WireType::kF32, WireType::kBf16, WireType::kFp8, WireType::kFp4,
                          WireType::kInt2, WireType::kInt1}) {
    for (uint64_t count = 0; count < 2000; count += 16) {
      EXPECT_EQ(wire_values(type, wire_bytes(type, count)), count) << wire_name(type);
    }
  }
}

TEST(Wire, ChunksAreWholeBlocksAndCoverAll) {
  for (const size_t count : {0, 1, 255, 256, 257, 5000}) {
    for (const int members : {1, 2, 3, 8}) {
      size_t at = 0;
      for (int member = 0; member < members; ++member) {
        const WireChunk chunk = wire_chunk(WireType::kFp4, count, members, member);
        EXPECT_EQ(chunk.begin, at);
        EXPECT_TRUE(chunk.end % 256 == 0 || chunk.end == count);
        at = chunk.end;
      }
      EXPECT_EQ(at, count);
    }
  }
}

TEST(Wire, F32AndBf16CarryEveryValue) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> values = {0.0f, -0.0f, 1.00390625f, -3e38f, 1e-40f, inf, -inf};
  for (int i = 0; i < 100; ++i) values.push_back(std::sin(float(i)));
  for (const auto type : {WireType::kF32, WireType::kBf16}) {
    const WireCodec& codec = wire_codec(type);
    EXPECT_EQ(codec.type, type);
    Bytes bytes(wire_bytes(type, values.size()));
    codec.encode(values, bytes);
    std::vector<float> decoded(values.size(), NAN);
    ASSERT_TRUE(codec.decode(bytes, decoded).has_value());
    for (size_t i = 0; i < values.size(); ++i) {
      const float sent = type == WireType::kF32 ? values[i] : round_to_bf16(values[i]);
      EXPECT_EQ(std::bit_cast<uint32_t>(decoded[i]), std::bit_cast<uint32_t>(sent));
    }
  }
}

constexpr std::array kBlockTypes = {WireType::kFp8, WireType::kFp4, WireType::kInt2,
                                    WireType::kInt1};
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Bytes encoded(WireType type, std::span<const float> values) {
  Bytes bytes(wire_bytes(type, values.size()), 0xee);
  wire_codec(type).encode(values, bytes);
  return bytes;
}

std::vector<float> as_received(WireType type, std::span<const float> values) {
  std::vector<float> decoded(values.size(), NAN);
  const auto done = wire_codec(type).decode(encoded(type, values), decoded);
  EXPECT_TRUE(done.has_value()) << done.error().message;
  return decoded;
}

std::vector<float> normal_values(size_t count, uint64_t seed) {
  Rng rng(seed, 0);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

void expect_same_bits(std::span<const float> got, std::span<const float> expected) {
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i]))
        << "value " << i << " is " << got[i] << ", not " << expected[i];
  }
}

TEST(Wire, BlocksDecodeToWhatThePlainReferenceSays) {
  Rng rng(5, 0);
  for (int round = 0; round < 400; ++round) {
    std::vector<float> values = normal_values(rng.below(700), uint64_t(round) + 100);
    for (size_t i = 0; i < values.size(); ++i) {
      if (round % 3 == 0) values[i] *= std::exp2(float(rng.below(9)) - 8);
      if (round % 5 == 0 && rng.below(2) == 0) values[i] = 0;
    }
    const int exponent = static_cast<int>(rng.below(240)) - 140;
    for (float& value : values) value = std::ldexp(value, exponent);
    for (const WireType type : kBlockTypes) {
      SCOPED_TRACE(wire_name(type));
      expect_same_bits(as_received(type, values), reference_as_received(type, values));
    }
  }
}

TEST(Wire, TiesAndBordersGoAsDefined) {
  // The scale is 1, except for int2 and int1, where it is given.
  EXPECT_EQ(as_received(WireType::kFp4, std::vector{1.0f, 0.75f, -0.75f, 0.375f}),
            (std::vector{1.0f, 1.0f, -1.0f, 0.5f}));
  EXPECT_EQ(as_received(WireType::kFp4, std::vector{1.0f, 0x1p-7f, 0x1.fffffep-8f, -0x1p-8f}),
            (std::vector{1.0f, 0x1p-6f, 0.0f, 0.0f}));
  EXPECT_EQ(as_received(WireType::kFp8, std::vector{448.0f, 17.0f, 19.0f, 0x1p-10f, 0x3p-10f}),
            (std::vector{448.0f, 16.0f, 20.0f, 0.0f, 0x1p-8f}));
  EXPECT_EQ(as_received(WireType::kInt2, std::vector{1.25f, -1.0f, 0.75f, -1.0f}),
            (std::vector{2.0f, -0.5f, 0.5f, -0.5f}));
  EXPECT_EQ(as_received(WireType::kInt2, std::vector{0.0f, -2.0f}), (std::vector{0.5f, -2.0f}));
  EXPECT_EQ(as_received(WireType::kInt1, std::vector{0.0f, -0.5f, 2.5f}),
            (std::vector{1.0f, -1.0f, 1.0f}));
}

// The bytes of docs/formats.md.
TEST(Wire, BytesAreThoseOfTheFormat) {
  const std::vector values = {1.0f, -0.5f, 0.25f, 0.0f, -1.0f};
  EXPECT_EQ(encoded(WireType::kFp8, values), (Bytes{0x80, 0x3f, 0x7e, 0xf6, 0x6e, 0x00, 0xfe}));
  EXPECT_EQ(encoded(WireType::kFp4, values), (Bytes{0x80, 0x3f, 0x07, 0xfe, 0x05}));
  const std::vector signs = {4.0f, -1.0f, 0.0f, -4.0f, 1.0f};
  EXPECT_EQ(encoded(WireType::kInt2, signs), (Bytes{0x00, 0x40, 0b0010, 0b1101}));
  EXPECT_EQ(encoded(WireType::kInt1, signs), (Bytes{0x00, 0x40, 0b01010}));
}

TEST(Wire, ZerosStayZeros) {
  for (const WireType type : kBlockTypes) {
    const std::vector<float> zeros(300);
    EXPECT_EQ(encoded(type, zeros), Bytes(wire_bytes(type, 300)));
    EXPECT_EQ(as_received(type, zeros), zeros);
  }
}

TEST(Wire, WhatWasReceivedTravelsUnchanged) {
  const std::vector<float> values = normal_values(5000, 7);
  for (const auto type :
       {WireType::kF32, WireType::kBf16, WireType::kFp8, WireType::kFp4, WireType::kInt1}) {
    SCOPED_TRACE(wire_name(type));
    const std::vector<float> once = as_received(type, values);
    expect_same_bits(as_received(type, once), once);
  }
}

TEST(Wire, PiecesOfWholeBlocksGiveTheBytesOfTheWhole) {
  const std::vector<float> values = normal_values(1111, 8);
  for (const WireType type : kBlockTypes) {
    Bytes pieces = encoded(type, std::span(values).first(512));
    const Bytes rest = encoded(type, std::span(values).subspan(512));
    pieces.insert(pieces.end(), rest.begin(), rest.end());
    EXPECT_EQ(pieces, encoded(type, values));
  }
}

// The figures of docs/formats.md: root mean squared error over the root mean square of the values.
TEST(Wire, ErrorsOnNormalValuesAreThoseStated) {
  const std::vector<float> values = normal_values(1 << 18, 9);
  const auto relative_error = [&](WireType type) {
    const std::vector<float> received = as_received(type, values);
    double error = 0;
    double all = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(double{received[i]} - values[i], 2);
      all += std::pow(values[i], 2);
    }
    return std::sqrt(error / all);
  };
  EXPECT_NEAR(relative_error(WireType::kBf16), 0.0017, 0.0001);
  EXPECT_NEAR(relative_error(WireType::kFp8), 0.026, 0.001);
  EXPECT_NEAR(relative_error(WireType::kFp4), 0.19, 0.01);
  EXPECT_NEAR(relative_error(WireType::kInt2), 0.35, 0.01);
  EXPECT_NEAR(relative_error(WireType::kInt1), 0.60, 0.01);
}

TEST(Wire, WhatIsNotFiniteIsRefused) {
  for (const float bad : {kInfinity, -kInfinity, std::nanf(""), 3.4e38f}) {
    for (const WireType type : kBlockTypes) {
      std::vector<float> values = normal_values(600, 10);
      values[300] = bad;
      if (std::isfinite(bad) && (type == WireType::kInt2 || type == WireType::kInt1))
        std::ranges::fill(values, bad);
      const auto done = wire_codec(type).decode(encoded(type, values), values);
      ASSERT_FALSE(done.has_value()) << bad << " as " << wire_name(type);
      EXPECT_EQ(done.error().kind, FailureKind::kCorruptPayload);
    }
  }
}

TEST(Wire, CodesThatStandForNothingAreRefused) {
  std::vector<float> values(3);
  Bytes bytes = encoded(WireType::kFp8, std::vector{1.0f, 2.0f, 3.0f});
  bytes[3] = 0xff;
  EXPECT_FALSE(wire_codec(WireType::kFp8).decode(bytes, values));
  for (const WireType type : kBlockTypes) {
    bytes = encoded(type, std::vector{1.0f, 2.0f, 3.0f});
    bytes[1] |= 0x80;  // a negative scale
    EXPECT_FALSE(wire_codec(type).decode(bytes, values));
  }
}

TEST(Wire, WrongLengthsAreRefused) {
  for (const auto type : {WireType::kF32, WireType::kBf16, WireType::kFp8, WireType::kFp4,
                          WireType::kInt2, WireType::kInt1}) {
    std::vector<float> values(10);
    const Bytes bytes(wire_bytes(type, 10) + 1);
    for (const size_t size : {bytes.size(), bytes.size() - 2, size_t{0}}) {
      const auto decoded = wire_codec(type).decode(std::span(bytes).first(size), values);
      ASSERT_FALSE(decoded.has_value());
      EXPECT_EQ(decoded.error().kind, FailureKind::kCorruptPayload);
    }
  }
}

}  // namespace
}  // namespace thinwire::codec
