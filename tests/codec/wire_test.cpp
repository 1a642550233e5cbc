#include "thinwire/codec/wire.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "thinwire/base/bf16.h"
#include "thinwire/base/bytes.h"

namespace thinwire::codec {
namespace {

TEST(Wire, NamesRoundTrip) {
  for (const std::string_view name : kWireNames) EXPECT_EQ(wire_name(*parse_wire(name)), name);
  EXPECT_FALSE(parse_wire("fp16").has_value());
}

TEST(Wire, BytesAreScalesAndValues) {
  EXPECT_EQ(wire_bytes(WireType::kF32, 300), 1200u);
  EXPECT_EQ(wire_bytes(WireType::kBf16, 300), 600u);
  EXPECT_EQ(wire_bytes(WireType::kFp8, 300), 2 * 2 + 300u);
  EXPECT_EQ(wire_bytes(WireType::kFp4, 301), 2 * 2 + 128 + 23u);
  EXPECT_EQ(wire_bytes(WireType::kInt2, 301), 2 * 2 + 64 + 12u);
  for (const auto type : {WireType::kF32, WireType::kFp4}) EXPECT_EQ(wire_bytes(type, 0), 0u);
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

TEST(Wire, WrongLengthsAreRefused) {
  for (const auto type : {WireType::kF32, WireType::kBf16}) {
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
