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
  opening.round = 5;
  opening.steps.resize(1);
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

// A round of one step.
class Plan final : public membership::RunPlan {
 public:
  uint64_t workers() const override { return 3; }
  uint64_t batch() const override { return 8; }
  uint64_t overlap() const override { return 0; }
  uint64_t rounds() const override { return 9; }
  membership::Opening round(uint64_t) const override { return opening(); }
};

constexpr uint64_t kRound = 5;

// Listed with all of its member's rows.
Contribution listed(int member, uint64_t rows, uint64_t round = kRound) {
  return {member, round, {}, 12, rows};
}

std::vector<float> mean_of(const std::vector<transport::Delivery>& deliveries, float factor) {
  transport::CodedSum memory;
  std::vector<float> mean(3);
  EXPECT_TRUE(sum_committed(transport::kF32, deliveries, factor, mean, memory));
  return mean;
}

TEST(CommittedSum, IsTheMeanOverTheRowsOfThoseThatACommitLists) {
  const float factor = mean_factor(Plan(), opening(), {0, 1, 2}, {listed(0, 4), listed(2, 2)});
  for (const float value : mean_of({contribution(0, 0.5f, 3), contribution(2, 0.25f, 6)}, factor)) {
    EXPECT_FLOAT_EQ(value, (4 * 3 + 2 * 6) / 6.0f);
  }
}

TEST(CommittedSum, IsTheMeanWithLateContributionsByTheirOwnRows) {
  const float factor = mean_factor(Plan(), opening(), {0, 1, 2},
                                   {listed(0, 4), listed(1, 3, kRound - 1), listed(1, 2)});
  const auto mean = mean_of(
      {contribution(0, 0.5f, 3), contribution(1, 3 / 8.0f, 8), contribution(1, 0.25f, 6)}, factor);
  for (const float value : mean) EXPECT_FLOAT_EQ(value, (4 * 3 + 3 * 8 + 2 * 6) / 9.0f);
}

TEST(CommittedSum, IsTheMeanWhereOnlyLateContributionsAreThere) {
  const float factor = mean_factor(Plan(), opening(), {}, {listed(1, 2, kRound - 1)});
  for (const float value : mean_of({contribution(1, 0.25f, 6)}, factor)) EXPECT_FLOAT_EQ(value, 6);
}

TEST(CommittedSum, IsNotScaledWhereNobodyIsLeftOut) {
  const std::vector<Contribution> two = {listed(0, 4), listed(1, 2)};
  EXPECT_EQ(mean_factor(Plan(), opening(), {0, 1}, two), 1) << "member 2 does not contribute";
  EXPECT_NE(mean_factor(Plan(), opening(), {}, two), 1) << "all do";
  EXPECT_EQ(mean_factor(Plan(), opening(), {}, {}), 1);
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
