#include "thinwire/member/committed_sum.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/transport/codecs.h"

namespace thinwire::member {
namespace {

// Members 0, 1 and 2 have 4, 2 and 2 rows of a batch of 8.
membership::Opening opening() {
  membership::Opening opening;
  opening.roster = {{0, {0, 4}, 0}, {1, {4, 2}, 0}, {2, {6, 2}, 0}};
  return opening;
}

// What a member sends whose mean over its own rows is `mean` everywhere.
transport::Delivery contribution(int member, float share, float mean) {
  const std::vector<float> values(3, share * mean);
  Bytes bytes(wire_bytes(WireType::kF32, values.size()));
  transport::kF32.encode(values, bytes);
  return {member, std::make_shared<const Bytes>(std::move(bytes))};
}

TEST(CommittedSum, IsTheMeanOverTheRowsOfThoseThatACommitLists) {
  const std::vector<transport::Delivery> listed = {contribution(0, 0.5f, 3),
                                                   contribution(2, 0.25f, 6)};
  const float factor = mean_factor(opening(), {0, 1, 2}, listed);
  transport::CodedSum memory;
  std::vector<float> mean(3);
  ASSERT_TRUE(sum_committed(transport::kF32, listed, factor, mean, memory));
  for (const float value : mean) EXPECT_FLOAT_EQ(value, (4 * 3 + 2 * 6) / 6.0f);
}

TEST(CommittedSum, IsNotScaledWhereNobodyIsLeftOut) {
  const std::vector<transport::Delivery> two = {contribution(0, 0.5f, 3), contribution(1, 0.5f, 6)};
  EXPECT_EQ(mean_factor(opening(), {0, 1}, two), 1) << "member 2 does not contribute";
  EXPECT_NE(mean_factor(opening(), {}, two), 1) << "all do";
  EXPECT_EQ(mean_factor(opening(), {}, {}), 1);
}

TEST(CommittedSum, NamesTheMemberWhoseContributionHasAnotherLength) {
  transport::CodedSum memory;
  std::vector<float> mean(4);
  const auto done = sum_committed(transport::kF32, {contribution(2, 1, 1)}, 1, mean, memory);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            "the contribution of member 2 has 12 bytes where 16 are expected");
}

}  // namespace
}  // namespace thinwire::member
