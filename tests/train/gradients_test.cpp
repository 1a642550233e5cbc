// What becomes of gradients that are handed over one by one.
#include "thinwire/train/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/tiny_run.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/model/registry.h"

namespace thinwire::train {
namespace {

config::Recipe recipe_with(std::vector<std::string> fields) {
  fields.insert(fields.end(), {"train.update=layer", "optim.clip=0", "sync.method=diloco"});
  config::Recipe recipe = tiny_recipe({}, std::move(fields));
  recipe.model.vocab = 258;
  return recipe;
}

// Keeps what it is given.
class Taker final : public sync::Strategy {
 public:
  explicit Taker(const tensor::Layout& layout) : taken(layout.size()) {}

  void take_gradient(const Round&, size_t tensor, std::span<const float> gradient) override {
    taken[tensor].insert(taken[tensor].end(), gradient.begin(), gradient.end());
  }
  void gradients_ready(const Round&, int group) override { groups.push_back(group); }
  Result<sync::StepReport> after_step(const Round&) override { return sync::StepReport{}; }
  std::vector<StateTensor> state() override { return {}; }

  std::vector<std::vector<float>> taken;
  std::vector<int> groups;
};

class StreamedSteps : public testing::TestWithParam<std::vector<std::string>> {};

// A member has more rows than its share of a pass while others are away.
TEST_P(StreamedSteps, OfSeveralPassesHandOverTheirSums) {
  const config::Recipe recipe = recipe_with(GetParam());
  const tensor::Layout layout(method::tensors_of(recipe));
  tensor::Arena params(layout), sums(layout);
  ThreadPool threads(1);
  const int64_t in_a_pass = method::rows_per_pass(recipe.train);
  const auto model = model::make_model({method::ModelSpec(recipe), Precision::kFp32, layout, params,
                                        threads, in_a_pass, recipe.train.sequence});
  model::init_parameters(params, method::ModelSpec(recipe), 1);
  model->refresh();
  const int64_t rows = 2 * in_a_pass + 1;
  std::vector<int32_t> tokens(static_cast<size_t>(rows * (recipe.train.sequence + 1)));
  Rng rng(7, 1);
  for (int32_t& token : tokens) token = static_cast<int32_t>(rng.below(256));
  const StepRows step = {tokens, recipe.train.sequence, in_a_pass};
  StepGradients gradients(recipe, params);
  Taker taker(layout);
  const double loss = gradients.compute(step, *model, taker, Round{});
  tensor::WholeGradients whole(sums);
  EXPECT_EQ(loss, accumulate_gradients(*model, step, whole));
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    EXPECT_TRUE(std::ranges::equal(taker.taken[tensor], sums.tensor(tensor)))
        << layout.specs()[tensor].name;
  }
  EXPECT_FALSE(taker.groups.empty());
}

INSTANTIATE_TEST_SUITE_P(Of, StreamedSteps,
                         testing::Values(std::vector<std::string>{},
                                         std::vector<std::string>{"model.tied=true"}));

}  // namespace
}  // namespace thinwire::train
