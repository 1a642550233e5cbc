// What low-rank optimizers have in common with each other, where their rules meet.
#include "thinwire/optim/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/optim/random_values.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/channels.h"
#include "thinwire/optim/subspace.h"
#include "thinwire/optimizers/natural_galore/natural_gradient.h"

namespace thinwire::optim {
namespace {

using method::LowRankShape;
using method::Sides;
using testing::ElementsAre;
using testing::FloatNear;
using testing::Pointwise;

std::vector<TensorSpec> specs() {
  return {{"wide", {14, 20}, TensorRole::kMatrix, 0}, {"tall", {150, 12}, TensorRole::kMatrix, 0}};
}

// The weights after some steps from zero, of which the first do not change them.
std::vector<float> trained(const std::vector<std::string>& recipe, int steps = 9, int idle = 0) {
  const tensor::Layout layout(specs());
  const auto optimizer =
      make_optimizer(method::optimizer_options(method::load_recipe({}, recipe)), layout);
  ThreadPool threads(1);
  tensor::Arena params(layout), grads(layout);
  for (int step = 0; step < steps; ++step) {
    for (size_t t = 0; t < layout.size(); ++t) {
      const std::vector<float> values =
          random_values(layout.specs()[t].count(), 10 * uint64_t(step) + t);
      std::copy(values.begin(), values.end(), grads.tensor(t).begin());
    }
    optimizer->step(params, grads, {uint64_t(step), step < idle ? 0.0f : 0.01f, 0.1f}, threads);
  }
  return {params.all().begin(), params.all().end()};
}

// lambda -> infinity
TEST(NaturalGalore, WithLargeDampingIsGalore) {
  for (const char* moments : {"keep", "rotate"}) {
    const auto options = [&](const std::string& name) {
      return std::vector<std::string>{"optim.method=" + name, name + ".rank=4", name + ".refresh=3",
                                      name + ".moments=" + moments, "adamw.eps=1e-30"};
    };
    std::vector<std::string> natural = options("natural_galore");
    natural.emplace_back("natural_galore.damping=1e8");
    EXPECT_THAT(trained(natural), Pointwise(FloatNear(2e-6f), trained(options("galore"))));
  }
}

// A history that forgets at once and one that was cleared by every renewal are the same. The first
// bases last for two steps. Adam has no memory here.
TEST(NaturalGalore, ARenewalInEveryStepLeavesAHistoryOfOne) {
  const std::vector<std::string> common = {"optim.method=natural_galore",
                                           "natural_galore.rank=4",
                                           "natural_galore.refresh=1",
                                           "adamw.beta1=0",
                                           "adamw.beta2=0",
                                           "adamw.eps=1"};
  std::vector<std::string> cleared = common, one = common;
  cleared.emplace_back("natural_galore.at_refresh=clear");
  one.emplace_back("natural_galore.history=1");
  EXPECT_EQ(trained(cleared, 9, 2), trained(one, 9, 2));
}

// In all of the space it makes no difference which coordinates a history is seen in.
TEST(NaturalGalore, OneSideAndBothAgreeAtFullRank) {
  constexpr int64_t kSide = 9, kHistory = 4;
  ThreadPool threads(1);
  std::vector<std::vector<float>> lifted;
  for (const Sides sides : {Sides::kOne, Sides::kTwo}) {
    const LowRankShape shape = {kSide, kSide, kSide, sides};
    Subspace subspace;
    std::vector<float> left(kSide * kSide), right(sides == Sides::kTwo ? kSide * kSide : 0);
    const Bases bases = {left, right};
    subspace.start(shape, bases, random_values(kSide * kSide, 1), 2, threads);
    std::vector<float> gradients(kHistory * kSide * kSide), products(2 * kHistory * kHistory);
    GradientHistory history(gradients, products, kHistory);
    std::vector<float> core(kSide * kSide), full(kSide * kSide);
    for (int64_t step = 0; step < 6; ++step) {
      subspace.project(shape, bases, random_values(kSide * kSide, 20 + uint64_t(step)), 0.1f, core,
                       threads);
      history.put(step % kHistory, core, threads);
      history.natural_gradient(step % kHistory, 1e-2, core, threads);
    }
    subspace.lift(shape, bases, core, full, threads);
    lifted.push_back(full);
  }
  EXPECT_THAT(lifted[1], Pointwise(FloatNear(1e-5f), lifted[0]));
}

// With a subspace that leaves nothing out, what Fira adds to GaLore is rounding.
TEST(Fira, AtFullRankIsGalore) {
  const auto ranks = [&](const std::string& name) {
    return std::vector<std::string>{"optim.method=" + name, name + ".rank=12", name + ".refresh=4",
                                    name + ".scale=1"};
  };
  const std::vector<float> fira = trained(ranks("fira"));
  const std::vector<float> galore = trained(ranks("galore"));
  constexpr int64_t kTall = 288;  // where it begins
  const std::vector<float> tall_of_fira(fira.begin() + kTall, fira.end());
  const std::vector<float> tall_of_galore(galore.begin() + kTall, galore.end());
  EXPECT_THAT(tall_of_fira, Pointwise(FloatNear(1e-6f), tall_of_galore));
  EXPECT_NE(fira, galore);  // the other matrix has two dimensions more
}

TEST(Apollo, ProjectionsAreRedrawnAtTheirTurnAndDifferBetweenSeeds) {
  const std::vector<std::string> common = {"optim.method=apollo", "apollo.rank=4"};
  const auto with = [&](const std::string& field) {
    std::vector<std::string> recipe = common;
    recipe.push_back(field);
    return trained(recipe, 6);
  };
  EXPECT_NE(with("apollo.refresh=3"), with("apollo.refresh=4"));
  EXPECT_EQ(with("apollo.refresh=99"), with("apollo.refresh=99"));
  EXPECT_NE(with("run.seed=1"), with("run.seed=2"));
}

// Over renewals, close enough to fp32 that a step in the wrong subspace would not pass.
TEST(Bases, InFewerBitsSpanNearlyTheSameSubspace) {
  for (const std::string name : {"galore", "natural_galore", "fira", "apollo"}) {
    const std::vector<std::string> common = {"optim.method=" + name, name + ".rank=5",
                                             name + ".refresh=3"};
    const std::vector<float> exact = trained(common);
    double before = 0;
    for (const char* format : {"bf16", "8bit"}) {
      std::vector<std::string> narrow = common;
      narrow.push_back(std::string("optim.bases=") + format);
      const std::vector<float> weights = trained(narrow);
      double difference = 0, square = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        difference += std::pow(weights[i] - exact[i], 2);
        square += std::pow(exact[i], 2);
      }
      const double error = std::sqrt(difference / square);
      EXPECT_GT(error, before) << name << " " << format;
      EXPECT_LT(error, 0.3) << name << " " << format;
      before = error;
    }
  }
}

TEST(Channels, HaveNormsAndFactorsByRowAndByColumn) {
  ThreadPool threads(2);
  const std::vector<float> matrix = {3, 0, 0, 4, 12, 0};
  std::vector<float> rows(2), columns(3);
  channel_norms(matrix, 3, Channel::kRow, rows, threads);
  EXPECT_THAT(rows, ElementsAre(3, FloatNear(std::sqrt(160.0f), 1e-6f)));
  channel_norms(matrix, 3, Channel::kColumn, columns, threads);
  EXPECT_THAT(columns, ElementsAre(5, 12, 0));
  std::vector<float> scaled = matrix;
  scale_channels(scaled, 3, Channel::kRow, std::vector<float>{2, 3}, threads);
  EXPECT_THAT(scaled, ElementsAre(6, 0, 0, 12, 36, 0));
  scale_channels(scaled, 3, Channel::kColumn, std::vector<float>{1, 0.5f, 7}, threads);
  EXPECT_THAT(scaled, ElementsAre(6, 0, 0, 12, 18, 0));
  std::vector<float> part(4);
  scaled_elements(matrix, 3, Channel::kRow, std::vector<float>{2, 3}, 1, 4, part.data());
  EXPECT_THAT(part, ElementsAre(0, 0, 12, 36));
  scaled_elements(matrix, 3, Channel::kColumn, std::vector<float>{1, 0.5f, 7}, 0, 4, part.data());
  EXPECT_THAT(part, ElementsAre(3, 0, 0, 4));
}

TEST(LimitGrowth, HoldsTheNormToAFactorOfTheLast) {
  float last = 0;
  EXPECT_EQ(limit_growth(2, 1.5, last), 1);
  EXPECT_EQ(limit_growth(2.5, 1.5, last), 1);
  EXPECT_EQ(last, 2.5f);
  EXPECT_FLOAT_EQ(limit_growth(10, 1.5, last), 0.375f);
  EXPECT_FLOAT_EQ(last, 3.75f);
  EXPECT_EQ(limit_growth(0.1, 1.5, last), 1);
}

}  // namespace
}  // namespace thinwire::optim
