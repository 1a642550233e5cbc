#include "thinwire/method/optimizers/low_rank.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "thinwire/base/block_sizes.h"
#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

config::Recipe recipe_with(std::vector<std::string> fields) {
  fields.push_back("model.vocab=300");
  return load_recipe({}, fields);
}

std::string message_of(const std::vector<std::string>& fields) {
  return tests::error_of([&] { recipe_with(fields); });
}

TensorSpec matrix(std::string name, int64_t rows, int64_t columns) {
  return {std::move(name), {rows, columns}, TensorRole::kMatrix, 0};
}

TEST(LowRankShape, ProjectsTheSmallerDimensionAndTheRowsOfSquares) {
  const LowRankFields fields = {.rank = 4};
  const LowRankShape wide = low_rank_shape(fields, matrix("a", 20, 30));
  EXPECT_TRUE(wide.projects_rows() && !wide.projects_columns());
  EXPECT_THAT(wide.core(), ElementsAre(4, 30));
  const LowRankShape tall = low_rank_shape(fields, matrix("a", 30, 20));
  EXPECT_TRUE(!tall.projects_rows() && tall.projects_columns());
  EXPECT_THAT(tall.core(), ElementsAre(30, 4));
  const LowRankShape square = low_rank_shape(fields, matrix("a", 20, 20));
  EXPECT_THAT(square.core(), ElementsAre(4, 20));
  EXPECT_THAT(square.left_basis(), ElementsAre(4, 20));
  EXPECT_THAT(low_rank_shape(fields, matrix("a", 30, 20), Sides::kTwo).core(), ElementsAre(4, 4));
}

TEST(LowRankShape, RanksGoByPatternAndOtherRolesHaveNone) {
  const LowRankFields fields = {.ranks = {"*.mlp.*=6", "b*=0", "*=3"}};
  EXPECT_EQ(low_rank_shape(fields, matrix("x.mlp.up", 40, 50)).rank, 6);
  EXPECT_EQ(low_rank_shape(fields, matrix("box", 40, 50)).rank, 0);
  EXPECT_EQ(low_rank_shape(fields, matrix("cat", 40, 50)).rank, 3);
  EXPECT_EQ(low_rank_shape({}, matrix("cat", 40, 50)).rank, 10);
  EXPECT_EQ(low_rank_shape({}, matrix("cat", 3, 50)).rank, 1);
  EXPECT_EQ(low_rank_shape({}, {"embed", {40, 50}, TensorRole::kEmbedding}).rank, 0);
}

TEST(RefreshPlan, EveryMatrixHasItsTurnAndNoStepAllOfThem) {
  const LowRankFields fields = {.rank = 2, .refresh = 10};
  std::vector<LowRankShape> shapes(5);
  for (const size_t taken : {0, 2, 3, 4}) {
    shapes[taken] = low_rank_shape(fields, matrix("a", 8, 9));
  }
  const RefreshPlan plan(fields, shapes);
  EXPECT_FALSE(plan.due(0, 0));
  std::vector<int> times(shapes.size());
  for (uint64_t step = 1; step <= 30; ++step) {
    int now = 0;
    for (const size_t taken : {0, 2, 3, 4}) {
      times[taken] += plan.due(taken, step) ? 1 : 0;
      now += plan.due(taken, step) ? 1 : 0;
    }
    EXPECT_LE(now, 1) << step;
  }
  EXPECT_THAT(times, ElementsAre(3, 0, 3, 3, 3));
}

TEST(Galore, StateIsWhatItsPageSays) {
  const config::Recipe recipe =
      recipe_with({"optim.method=galore", "galore.rank=16", "galore.ranks=[\"*.down_proj.*=0\"]"});
  double expected = 0;
  for (const TensorSpec& tensor : tensors_of(recipe)) {
    if (!tensor.is_hidden_matrix() || tensor.name.find("down_proj") != std::string::npos) {
      expected += 8 * static_cast<double>(arena_elements({&tensor, 1}));
      continue;
    }
    const auto [small, large] = std::minmax(tensor.shape[0], tensor.shape[1]);
    expected += 4 * 16 * static_cast<double>(2 * large + small);
  }
  const StateBytes state = optimizer_state(recipe, tensors_of(recipe));
  EXPECT_EQ(state.consensus, expected);
  EXPECT_EQ(state.local, 0);
}

// The bytes of the model's matrices, each as `bytes(small, large)` says, and 8 an element of the
// rest.
template <typename Bytes>
double expected_bytes(const config::Recipe& recipe, const Bytes& bytes) {
  double sum = 0;
  for (const TensorSpec& tensor : tensors_of(recipe)) {
    if (tensor.is_hidden_matrix()) {
      const auto [small, large] = std::minmax(tensor.shape[0], tensor.shape[1]);
      sum += static_cast<double>(bytes(small, large));
    } else {
      sum += 8 * static_cast<double>(arena_elements({&tensor, 1}));
    }
  }
  return sum;
}

TEST(NaturalGalore, StateIsWhatItsPageSays) {
  const config::Recipe one = recipe_with(
      {"optim.method=natural_galore", "natural_galore.rank=16", "natural_galore.history=20"});
  EXPECT_EQ(optimizer_state(one, tensors_of(one)).consensus,
            expected_bytes(one, [](int64_t small, int64_t large) {
              return 4 * (22 * 16 * large + 16 * small + 2 * 20 * 20);
            }));
  const config::Recipe two = recipe_with({"optim.method=natural_galore", "natural_galore.rank=16",
                                          "natural_galore.history=20", "natural_galore.sides=two"});
  EXPECT_EQ(optimizer_state(two, tensors_of(two)).consensus,
            expected_bytes(two, [](int64_t small, int64_t large) {
              return 4 * (22 * 16 * 16 + 16 * (small + large) + 2 * 20 * 20);
            }));
}

TEST(Apollo, StateIsWhatItsPageSays) {
  for (const std::string name : {"apollo", "fira"}) {
    const config::Recipe recipe = recipe_with({"optim.method=" + name, name + ".rank=8"});
    const auto norm = static_cast<double>(4 * padded_elements(1));
    EXPECT_EQ(optimizer_state(recipe, tensors_of(recipe)).consensus,
              expected_bytes(recipe, [&](int64_t small, int64_t large) {
                return norm + static_cast<double>(4 * 8 * (2 * large + small));
              }));
  }
}

TEST(Scale, KeepsTheLastLayersMomentumOnly) {
  for (const bool tied : {false, true}) {
    const config::Recipe recipe =
        recipe_with({"optim.method=scale", tied ? "model.tied=true" : "model.tied=false"});
    double expected = 0;
    for (const TensorSpec& tensor : tensors_of(recipe)) {
      const auto elements = static_cast<double>(arena_elements({&tensor, 1}));
      if (tensor.role == TensorRole::kNorm) expected += 8 * elements;
      if (tensor.role == (tied ? TensorRole::kEmbedding : TensorRole::kHead)) {
        expected += 4 * elements;
      }
    }
    EXPECT_EQ(optimizer_state(recipe, tensors_of(recipe)).consensus, expected);
  }
}

TEST(Galore, RanksThatDoNotFitNameTheMatrixAndTheWayOut) {
  EXPECT_EQ(message_of({"optim.method=galore", "galore.rank=128"}), tests::kNoError);
  EXPECT_THAT(message_of({"optim.method=galore", "galore.rank=129"}),
              AllOf(HasSubstr("[galore] rank of model.layers.0.self_attn.q_proj.weight must be <= "
                              "128, its smaller dimension, got 129"),
                    HasSubstr("ranks = [\"model.layers.0.self_attn.q_proj.weight=128\"]")));
  EXPECT_THAT(message_of({"optim.method=galore", "galore.ranks=[\"*.mpl.*=4\"]"}),
              HasSubstr("[galore] ranks: \"*.mpl.*=4\" matches no matrix of the blocks"));
  for (const char* bad : {"*.mlp.*", "=4", "*=-1", "*=4x", "*="}) {
    EXPECT_THAT(message_of({"optim.method=galore", "galore.ranks=[\"" + std::string(bad) + "\"]"}),
                HasSubstr("[galore] ranks must be like \"*.mlp.*=64\""))
        << bad;
  }
  EXPECT_EQ(message_of({"galore.rank=129"}), tests::kNoError);  // not the optimizer
}

TEST(Galore, NeedsGradientsThatReplicasShareOrKeepApart) {
  EXPECT_EQ(message_of({"optim.method=galore", "sync.method=diloco"}), tests::kNoError);
  for (const std::string optimizer : {"galore", "natural_galore", "apollo", "fira"}) {
    EXPECT_THAT(message_of({"optim.method=" + optimizer, "sync.method=distro"}),
                AllOf(HasSubstr("[optim] method = \"" + optimizer + "\""),
                      HasSubstr("got [sync] method = \"distro\""),
                      HasSubstr("galore with galore.basis = \"seeded\"")));
  }
  EXPECT_THAT(message_of({"optim.method=galore", "sync.method=diloco", "sync.within=distro",
                          "sync.clusters=1"}),
              HasSubstr("got [sync] within = \"distro\""));
}

TEST(Galore, InSeededBasesGoesWithDistroWhereCoordinatesHoldUntilTheStep) {
  const std::vector<std::string> fields = {"optim.method=galore", "galore.basis=seeded",
                                           "optim.gradients=projected", "sync.method=distro",
                                           "distro.update=adamw"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = fields;
    all.insert(all.end(), more.begin(), more.end());
    return message_of(all);
  };
  EXPECT_EQ(with({}), tests::kNoError);
  EXPECT_EQ(with({"train.microbatch=1", "distro.feedback=true"}), tests::kNoError);
  EXPECT_EQ(with({"sync.method=diloco", "sync.within=distro", "sync.clusters=1"}), tests::kNoError);
  EXPECT_THAT(with({"galore.basis=gradient"}),
              HasSubstr("[galore] basis must be \"seeded\" with distro.update = \"adamw\", got "
                        "\"gradient\""));
  EXPECT_THAT(with({"distro.update=sign"}),
              HasSubstr("[distro] update must be \"adamw\" with optim.method = \"galore\", got "
                        "\"sign\": the optimizer takes"));
  EXPECT_THAT(with({"distro.client=stateless"}),
              HasSubstr("[distro] client must be \"stateful\" with optim.method = \"galore\", got "
                        "\"stateless\""));
  EXPECT_THAT(with({"distro.overlap=1"}),
              HasSubstr("[distro] overlap must be 0 with optim.method = \"galore\", got 1"));
  EXPECT_THAT(
      with({"optim.gradients=whole"}),
      HasSubstr("[optim] gradients must be \"projected\" with optim.method = \"galore\", got "
                "\"whole\""));
  EXPECT_THAT(with({"galore.moments=rotate"}),
              HasSubstr("[galore] moments = \"rotate\" contradicts basis = \"seeded\""));
  EXPECT_THAT(with({"train.update=layer", "optim.clip=0"}), HasSubstr("sync.method = \"distro\""));
}

TEST(RefreshPlan, NumbersTheBasesOfAStepByTheRenewalsBeforeIt) {
  const LowRankFields fields = {.rank = 2, .refresh = 4};
  const std::vector<LowRankShape> shapes(2, low_rank_shape(fields, matrix("a", 8, 9)));
  const RefreshPlan plan(fields, shapes);
  for (const size_t tensor : {0, 1}) {
    EXPECT_EQ(plan.renewals_before(tensor, 0), plan.renewals(tensor, 0));
    for (uint64_t step = 1; step < 12; ++step) {
      EXPECT_EQ(plan.renewals_before(tensor, step + 1) - plan.renewals_before(tensor, step),
                plan.due(tensor, step) ? 1u : 0u)
          << step;
    }
  }
}

}  // namespace
}  // namespace thinwire::method
