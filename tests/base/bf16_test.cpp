#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "thinwire/base/half.h"

namespace thinwire {
namespace {

TEST(Bf16, EveryValueSurvivesTheWayThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_float(Bf16{static_cast<uint16_t>(bits)});
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(round_to_bf16(value)));
    } else {
      EXPECT_EQ(to_bf16(value).bits, bits);
    }
  }
}

// Gives the nearer neighbour, and the even one at equal distance, in every binade and for both
// signs.
TEST(Bf16, RoundsToNearestTiesToEven) {
  for (uint32_t sign : {0u, 0x8000u}) {
    for (uint32_t exponent = 0; exponent < 255; ++exponent) {
      for (uint32_t mantissa : {0u, 1u, 2u, 0x3fu, 0x40u, 0x7eu, 0x7fu}) {
        const uint32_t upper = sign | exponent << 7 | mantissa;
        for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
          const bool up = lower > 0x8000u || (lower == 0x8000u && (upper & 1u) != 0);
          const auto value = std::bit_cast<float>(upper << 16 | lower);
          EXPECT_EQ(to_bf16(value).bits, upper + (up ? 1 : 0)) << upper << ' ' << lower;
        }
      }
    }
  }
}

TEST(Bf16, OverflowsToInfinityOfTheSameSign) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(round_to_bf16(largest), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_to_bf16(-largest), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isfinite(round_to_bf16(std::bit_cast<float>(0x7f7f7fffu))));
}

TEST(Bf16, NanStaysNanWhateverItsBits) {
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0x7fc00000u}) {
    EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(bits)))) << bits;
  }
}

}  // namespace
}  // namespace thinwire
