#include "thinwire/method/gradient_sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::ElementsAre;

config::Recipe recipe_of(std::vector<std::string> fields) {
  fields.insert(fields.begin(), {"model.vocab=64", "model.layers=2", "model.hidden=32",
                                 "model.heads=2", "llama.intermediate=96", "train.workers=2"});
  return load_recipe({}, fields);
}

std::vector<int64_t> sums_of(const std::vector<std::string>& fields, RunKind kind = RunKind::kJob) {
  const config::Recipe recipe = recipe_of(fields);
  return gradient_sums(recipe, tensors_of(recipe), kind);
}

constexpr int64_t kTable = 64 * 32, kBlock = 4 * 32 * 32 + 3 * 32 * 96 + 2 * 32;

TEST(GradientSums, AreThoseOfGroupsFromTheHeadToTheEmbedding) {
  const auto groups = ElementsAre(kTable + 32, kBlock, kBlock, kTable);
  EXPECT_THAT(sums_of({}), groups);
  EXPECT_THAT(sums_of({"allreduce.wire=fp32", "train.batch=8", "train.microbatch=1"}), groups);
  EXPECT_THAT(sums_of({"train.update=layer", "optim.clip=0"}), groups);
  EXPECT_THAT(sums_of({"train.update=layer", "optim.clip=0"}, RunKind::kHosted), groups);
  EXPECT_THAT(sums_of({"model.tied=true"}), ElementsAre(32, kBlock, kBlock, kTable));
}

TEST(GradientSums, AreOneWhereItsBitsOrItsCostWouldChange) {
  const auto whole = ElementsAre(2 * kTable + 32 + 2 * kBlock);
  EXPECT_THAT(sums_of({"allreduce.hide=false"}), whole);
  EXPECT_THAT(sums_of({}, RunKind::kHosted), whole);
  EXPECT_THAT(sums_of({"sync.aggregate=trimmed_mean"}), whole);
  EXPECT_THAT(sums_of({"train.device=auto"}), whole);
  for (const char* wire : {"allreduce.wire=fp8", "allreduce.wire=fp4", "allreduce.wire=int2"}) {
    EXPECT_THAT(sums_of({wire}), whole) << wire;
  }
  EXPECT_EQ(sums_of({"optim.method=galore", "galore.rank=8", "optim.gradients=projected"}).size(),
            1u);
}

// The rule concerns what goes across clusters.
TEST(GradientSums, OfAClusterHideUnderAnyRuleOfAggregation) {
  const std::vector<std::string> fields = {"sync.method=diloco", "sync.within=allreduce",
                                           "sync.clusters=1", "sync.aggregate=trimmed_mean"};
  EXPECT_EQ(sums_of(fields).size(), 4u);
}

TEST(GradientSums, TakeTheMemoryOfTheWholeOrOfTwoGroups) {
  const auto bytes = [](const std::vector<std::string>& fields) {
    const config::Recipe recipe = recipe_of(fields);
    return gradient_sum_bytes(recipe, tensors_of(recipe));
  };
  EXPECT_EQ(bytes({}), 4.0 * (2 * kTable + 32 + 2 * kBlock));
  EXPECT_EQ(bytes({"allreduce.hide=false"}), bytes({}));
  EXPECT_EQ(bytes({"train.update=layer", "optim.clip=0"}), 4.0 * 2 * kBlock);
  EXPECT_EQ(bytes({"train.workers=1"}), 0);
}

// The shares of a Llama's pass over a token: 6 operations for each weight of a product, and
// attention's.
TEST(CompletionShares, FollowTheBackwardPass) {
  const config::Recipe recipe = recipe_of({"train.batch=8", "train.sequence=16"});
  const std::vector<double> shares = completion_shares(recipe, tensors_of(recipe), 4);
  const double products = 6.0 * 2 * (kBlock - 2 * 32), attention = 7.0 / 6 * 6 * 2 * 32 * 16;
  const double head = 6.0 * kTable;
  const double backward = products * 2 / 3 + attention * 5 / 7;
  const double part = backward / (products + attention + head);
  ASSERT_EQ(shares.size(), 4u);
  EXPECT_NEAR(shares[0], 1 - part, 1e-12);
  EXPECT_NEAR(shares[1], 1 - part / 2, 1e-12);
  EXPECT_EQ(shares[2], 1);
  EXPECT_EQ(shares[3], 1);
}

// Three rows in passes of two: the last one takes a third of the step.
TEST(CompletionShares, LieInTheLastPass) {
  const config::Recipe one = recipe_of({"train.batch=8"});
  const config::Recipe two = recipe_of({"train.batch=8", "train.microbatch=2"});
  const double part = 1 - completion_shares(one, tensors_of(one), 3).front();
  EXPECT_NEAR(completion_shares(two, tensors_of(two), 3).front(), 1 - part / 3, 1e-12);
  EXPECT_NEAR(completion_shares(two, tensors_of(two), 4).front(), 1 - part / 2, 1e-12);
}

TEST(CompletionShares, CountWhatTheBackwardPassComputesAgain) {
  const auto first = [](const char* recompute) {
    const config::Recipe recipe = recipe_of({recompute});
    return completion_shares(recipe, tensors_of(recipe), 1).front();
  };
  EXPECT_LT(first("model.recompute=block"), first("model.recompute=none"));
}

TEST(ExchangeParts, AreTheGroupsBytesAndWhenTheyBegin) {
  const config::Recipe recipe = recipe_of({});
  const ExchangeParts parts = exchange_parts(recipe, tensors_of(recipe));
  const auto shares = completion_shares(recipe, tensors_of(recipe), (recipe.train.batch + 1) / 2);
  const std::vector<int64_t> sums = sums_of({});
  ASSERT_EQ(parts.all.size(), sums.size());
  const double all = 2 * kTable + 32 + 2 * kBlock;
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_DOUBLE_EQ(parts.all[i].bytes, static_cast<double>(sums[i]) / all);
    EXPECT_EQ(parts.all[i].begins, shares[i]);
  }
  EXPECT_FALSE(parts.in_turn);
  const config::Recipe layer = recipe_of({"train.update=layer", "optim.clip=0"});
  EXPECT_TRUE(exchange_parts(layer, tensors_of(layer)).in_turn);
  const config::Recipe whole = recipe_of({"allreduce.hide=false"});
  EXPECT_TRUE(exchange_parts(whole, tensors_of(whole)).all.empty());
}

}  // namespace
}  // namespace thinwire::method
