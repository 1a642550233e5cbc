#include "thinwire/links/links.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

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

TEST(TransferSeconds, LostBytesTravelAgain) {
  Link lossy = kHome;
  lossy.loss = 0.2;
  EXPECT_DOUBLE_EQ(transfer_seconds(lossy, 1e6, 0, 0), 1.0);
}

TEST(StoredSeconds, TakesOneDirectionAfterTheOther) {
  EXPECT_DOUBLE_EQ(stored_seconds(kHome, 1e6, 20e6, 0), 0.8 + 1.6);
  EXPECT_DOUBLE_EQ(stored_seconds(kHome, 1e6, 20e6, 1), 0.8 + 1.6 + 6 * 0.02);
}

config::LinksSection section_with(config::StringList members) {
  config::LinksSection section;
  section.step_s = 2;
  section.members = std::move(members);
  return section;
}

TEST(MembersOf, TakesWhatDiffersFromEntries) {
  const auto members =
      members_of(section_with({"1.up_bit_s=5M", "1.step_s=0.5", "2.loss=0.25"}), 3);
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].link.up_bit_s, 10e6);
  EXPECT_EQ(members[0].step_s, 2);
  EXPECT_EQ(members[1].link.up_bit_s, 5e6);
  EXPECT_EQ(members[1].link.down_bit_s, 100e6);
  EXPECT_EQ(members[1].step_s, 0.5);
  EXPECT_EQ(members[2].link.loss, 0.25);
}

TEST(MembersOf, RefusesEntriesByName) {
  for (const std::string entry : {"up_bit_s=5M", "1.up_bit_s", "x.up_bit_s=5M", "-1.loss=0",
                                  "3.loss=0", "1.speed=3", "1.members=a", "1.loss=2", "1.loss=x"}) {
    EXPECT_THROW(members_of(section_with({entry}), 3), UsageError) << entry;
  }
}

}  // namespace
}  // namespace thinwire::links
