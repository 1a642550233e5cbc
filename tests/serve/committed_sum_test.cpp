#include "thinwire/sync/committed_sum.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/transport/codecs.h"
#include "thinwire/base/rng.h"
#include "thinwire/codec/wire.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/method/registry.h"

namespace thinwire::sync {
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

TEST(CommittedSum, ListsContributionsWithTheirShares) {
  EXPECT_EQ(share_of(Plan(), opening(), listed(1, 2)), 0.25f);
  EXPECT_EQ(share_of(Plan(), opening(), listed(1, 3, kRound - 1)), 3 / 8.0f);
}

TEST(CommittedSum, NamesTheMemberWhoseContributionHasAnotherLength) {
  transport::CodedSum memory;
  std::vector<float> mean(4);
  const auto done = sum_committed(transport::kF32, {contribution(2, 1, 1)}, 1, mean, memory);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            "the contribution of member 2 has 12 bytes where 16 are expected");
}

// Whole blocks and a part of one, in two pieces.
constexpr size_t kValues = 16384 + 256 + 48;

TEST(DenseSum, HasTheBitsOfTheSumOfAllAtOnce) {
  using enum WireType;
  for (const SumFormats formats : {SumFormats{kF32, kF32},
                                   {kBf16, kBf16},
                                   {kFp8, kFp8},
                                   {kFp4, kFp4},
                                   {kInt2, kInt2},
                                   {kInt1, kFp8},
                                   {kInt1, kFp4},
                                   {kInt2, kF32}}) {
    const WireType type = formats.sent;
    const WireCodec& codec = codec::wire_codec(formats);
    Rng rng(5, static_cast<uint64_t>(type));
    std::vector<transport::Delivery> deliveries;
    for (const int member : {0, 1, 3}) {
      std::vector<float> values(kValues);
      for (float& value : values) value = static_cast<float>(rng.below(2001)) / 1000 - 1;
      Bytes bytes(wire_bytes(type, kValues));
      codec.encode(values, bytes);
      deliveries.push_back({member, std::make_shared<const Bytes>(std::move(bytes))});
    }
    for (const float factor : {1.0f, 1.25f}) {
      transport::CodedSum memory;
      std::vector<float> expected(kValues);
      ASSERT_TRUE(sum_committed(codec, deliveries, factor, expected, memory));
      DenseSum running(codec, wire_bytes(type, kValues));
      for (const transport::Delivery& one : deliveries) ASSERT_TRUE(running.add(one, 1));
      const auto coded = running.finish(factor);
      ASSERT_TRUE(coded);
      EXPECT_EQ(coded->size(), sum_bytes(codec, wire_bytes(type, kValues)));
      std::vector<float> sum(kValues);
      ASSERT_TRUE(codec.of_sum().decode(*coded, sum));
      EXPECT_EQ(sum, expected) << wire_name(type) << " " << factor;
    }
  }
}

TEST(DenseSum, RefusesAContributionOfAnotherLength) {
  DenseSum running(transport::kF32, 64);
  EXPECT_EQ(running.add(contribution(2, 1, 1), 1).error().message,
            "the contribution of member 2 has 12 bytes where 64 are expected");
}

Commit commit_of(const std::vector<uint64_t>& bytes) {
  Commit commit;
  for (const uint64_t one : bytes) {
    commit.contributions.push_back({static_cast<int>(commit.contributions.size()), 0, {}, one, 1});
  }
  return commit;
}

TEST(SumRule, AppliesToThreeContributionsAndWhereItSavesEnough) {
  const SumRule always{config::Sums::kCoordinator, &transport::kF32};
  EXPECT_TRUE(always.applies(commit_of({8, 8, 0, 8})));
  EXPECT_FALSE(always.applies(commit_of({8, 8, 0}))) << "a member would receive as much";
  const SumRule worthwhile{config::Sums::kAuto, &transport::kF32};
  EXPECT_TRUE(worthwhile.applies(commit_of({1 << 20, 1 << 20, 1 << 20})));
  EXPECT_FALSE(worthwhile.applies(commit_of({(1 << 20) - 4, (1 << 20) - 4, (1 << 20) - 4})));
  EXPECT_TRUE(worthwhile.applies(commit_of({1 << 19, 1 << 19, 1 << 19, 1 << 19})));
}

std::optional<SumRule> rule(const std::vector<std::string>& fields) {
  return sum_rule(method::load_recipe("", fields));
}

TEST(SumRule, IsForMethodsThatSumDenseValuesByTheirMean) {
  EXPECT_EQ(rule({"sync.method=allreduce"})->codec->type, WireType::kBf16);
  EXPECT_EQ(rule({"sync.method=diloco", "diloco.wire=fp4"})->codec->type, WireType::kFp4);
  EXPECT_FALSE(rule({"sync.method=distro"}));
  EXPECT_FALSE(rule({"sync.method=sparseloco"}));
  EXPECT_FALSE(rule({"sync.method=allreduce", "sync.aggregate=majority_vote"}));
  EXPECT_FALSE(rule({"sync.method=allreduce", "sync.sums=members"}));
}

}  // namespace
}  // namespace thinwire::sync
