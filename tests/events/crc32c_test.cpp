#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/events/tensorboard.h"

namespace thinwire::events {
namespace {

TEST(Crc32c, AgreesWithTheVectorsOfRfc3720) {
  std::vector<uint8_t> bytes(32, 0x00);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aaU);
  bytes.assign(32, 0xff);
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43U);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  EXPECT_EQ(crc32c(bytes), 0x46dd794eU);
  std::iota(bytes.rbegin(), bytes.rend(), uint8_t{0});
  EXPECT_EQ(crc32c(bytes), 0x113fdb5cU);
}

TEST(Crc32c, AgreesWithTheCheckValueOfTheCatalogue) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xe3069283U);
  EXPECT_EQ(crc32c({}), 0U);
}

// The masking is undone by rotating left after taking the constant away.
TEST(Crc32c, MaskingCanBeUndone) {
  const uint32_t rotated = masked_crc32c(as_bytes("123456789")) - 0xa282ead8U;
  EXPECT_EQ((rotated >> 17) | (rotated << 15), 0xe3069283U);
}

}  // namespace
}  // namespace thinwire::events
