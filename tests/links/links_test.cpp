#include "thinwire/links/links.h"

#include <gtest/gtest.h>

namespace thinwire::links {
namespace {

constexpr Link kHome{.up_bit_s = 10e6, .down_bit_s = 100e6, .delay_s = 0.02};

TEST(TransferSeconds, TakesTheSlowerDirection) {
  EXPECT_DOUBLE_EQ(transfer_seconds(kHome, 1e6, 1e6, 0), 0.8);
  EXPECT_DOUBLE_EQ(transfer_seconds(kHome, 1e6, 20e6, 0), 1.6);
}

TEST(TransferSeconds, AddsOneDelayATurn) {
  EXPECT_DOUBLE_EQ(transfer_seconds(kHome, 1e6, 0, 2), 0.84);
}

TEST(TransferSeconds, ReproducesTheLineRatesOfTheDistroReport) {
  // 86.8 MB down at 100 Mbit/s and 2.8 MB up at 10 Mbit/s: 6.94 s and 2.24 s.
  EXPECT_NEAR(transfer_seconds(kHome, 0, 86.8e6, 0), 6.94, 0.01);
  EXPECT_NEAR(transfer_seconds(kHome, 2.8e6, 0, 0), 2.24, 0.01);
}

TEST(TransferSeconds, IsZeroWhenNothingIsSent) {
  EXPECT_EQ(transfer_seconds(kHome, 0, 0, 0), 0);
  EXPECT_EQ(transfer_seconds({}, 0, 0, 0), 0);
}

}  // namespace
}  // namespace thinwire::links
