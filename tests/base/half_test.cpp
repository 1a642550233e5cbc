#include "thinwire/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace thinwire {
namespace {

constexpr uint32_t kInfinity = 0x7c00;
constexpr float kNearestInfinity = 65520.0f;  // halfway from the largest number to the next

float half(uint32_t bits) { return to_float(Half{static_cast<uint16_t>(bits)}); }

TEST(Half, EveryValueSurvivesTheWayThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half(bits);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_to_half(value))) << bits;
    } else {
      EXPECT_EQ(to_half(value).bits, bits);
    }
  }
}

// Between every two neighbours, subnormal ones too: the nearer, and the even one at equal distance.
TEST(Half, RoundsToNearestTiesToEven) {
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t bits = 0; bits < kInfinity; ++bits) {
      const float from = half(bits);
      const float to = bits + 1 < kInfinity ? half(bits + 1) : 2 * kNearestInfinity - from;
      const float middle = from + (to - from) / 2;  // exact in fp32
      const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      const auto rounded = [&](float value) {
        return uint32_t{to_half(sign == 0 ? value : -value).bits};
      };
      EXPECT_EQ(rounded(middle), sign | even) << bits;
      EXPECT_EQ(rounded(std::nextafter(middle, from)), sign | bits) << bits;
      EXPECT_EQ(rounded(std::nextafter(middle, to)), sign | (bits + 1)) << bits;
    }
  }
}

TEST(Half, OverflowsToInfinityOfTheSameSign) {
  for (const float large : {kNearestInfinity, 1e9f, std::numeric_limits<float>::max()}) {
    EXPECT_EQ(round_to_half(large), std::numeric_limits<float>::infinity());
    EXPECT_EQ(round_to_half(-large), -std::numeric_limits<float>::infinity());
  }
}

TEST(Half, NanStaysNanWhateverItsBits) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7fc00000u}) {
    EXPECT_TRUE(std::isnan(round_to_half(std::bit_cast<float>(bits)))) << bits;
  }
}

}  // namespace
}  // namespace thinwire
