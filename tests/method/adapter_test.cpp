#include "thinwire/method/adapters/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/errors.h"
#include "thinwire/architectures/roberta/roberta_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/names.h"
#include "thinwire/method/adapters/relora.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

config::Recipe recipe_with(std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), {"model.vocab=100", "model.hidden=32", "model.layers=2",
                                       "model.heads=2", "llama.intermediate=64"});
  return load_recipe({}, overrides);
}

// train.init makes load_recipe leave the checks to whoever reads that model.
config::Recipe lora(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), {"adapter.kind=lora", "train.init=base"});
  config::Recipe recipe = recipe_with(std::move(overrides));
  check_choices(recipe);
  return recipe;
}

std::vector<std::string> names_of(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : tensors) names.push_back(tensor.name);
  return names;
}

AdaptedTensors adapted(const config::Recipe& recipe) {
  return adapted_tensors(ModelSpec(recipe), recipe.adapter);
}

std::string refusal(const std::vector<std::string>& overrides) {
  return tests::error_of([&] { lora(overrides); });
}

TEST(Adapter, WithoutOneAllTensorsAreTrained) {
  const config::Recipe recipe = recipe_with({});
  EXPECT_EQ(names_of(adapted(recipe).trained), names_of(tensors_of(ModelSpec(recipe))));
  EXPECT_THAT(adapted(recipe).frozen, IsEmpty());
}

TEST(Adapter, FactorsStandWhereTheirMatrixWas) {
  const config::Recipe recipe = lora(
      {"adapter.targets=[\"q_proj\", \"layers.1.mlp.down*\"]", "adapter.whole=[\"model.norm\"]"});
  const AdaptedTensors tensors = adapted(recipe);
  EXPECT_THAT(names_of(tensors.trained),
              ElementsAre("model.layers.0.self_attn.q_proj.lora_A.weight",
                          "model.layers.0.self_attn.q_proj.lora_B.weight",
                          "model.layers.1.self_attn.q_proj.lora_A.weight",
                          "model.layers.1.self_attn.q_proj.lora_B.weight",
                          "model.layers.1.mlp.down_proj.lora_A.weight",
                          "model.layers.1.mlp.down_proj.lora_B.weight", "model.norm.weight"));
  EXPECT_EQ(tensors.trained[4].shape, (Shape{8, 64}));
  EXPECT_EQ(tensors.trained[5].shape, (Shape{32, 8}));
  EXPECT_EQ(tensors.trained[5].layer, 1);
  EXPECT_EQ(tensors.frozen.size(), tensors_of(ModelSpec(recipe)).size() - 1);
  EXPECT_EQ(names_of(tensors_of(recipe)), names_of(tensors.trained));
}

TEST(Adapter, OfAnEncoderTrainsItsHeadInFull) {
  ModelSpec model;
  model.architecture = "roberta";
  model.own = kRoberta.options();
  model.vocab = 300;
  model.hidden = 32;
  model.layers = 1;
  model.heads = 2;
  model.options<RobertaOptions>().intermediate = 64;
  AdapterSpec adapter;
  adapter.kind = AdapterKind::kLora;
  adapter.targets = {"query"};
  EXPECT_THAT(names_of(adapted_tensors(model, adapter).trained),
              ElementsAre("roberta.encoder.layer.0.attention.self.query.lora_A.weight",
                          "roberta.encoder.layer.0.attention.self.query.lora_B.weight",
                          "classifier.dense.weight", "classifier.dense.bias",
                          "classifier.out_proj.weight", "classifier.out_proj.bias"));
}

TEST(Adapter, OfLowRankReplacesItsMatricesAndTrainsTheRest) {
  const config::Recipe recipe = recipe_with({"adapter.kind=low_rank", "adapter.targets=[\"*\"]"});
  const AdaptedTensors tensors = adapted(recipe);
  EXPECT_THAT(tensors.frozen, IsEmpty());
  EXPECT_EQ(std::ranges::count_if(tensors.trained, is_factor), 2 * 2 * 7);
  EXPECT_EQ(tensors.trained.size(), tensors_of(ModelSpec(recipe)).size() + 2 * 7);
}

// A PEFT folder has a target for each matrix. Trying all of them for each tensor takes
// minutes.
TEST(Adapter, ManyTargetsAreLookedUp) {
  ModelSpec model(recipe_with({"model.layers=5000", "adapter.kind=lora", "train.init=a"}));
  AdapterSpec adapter;
  adapter.kind = AdapterKind::kLora;
  adapter.targets.clear();
  for (const TensorSpec& tensor : tensors_of(model)) {
    if (tensor.is_hidden_matrix())
      adapter.targets.push_back(tensor.name.substr(0, tensor.name.size() - 7));
  }
  EXPECT_EQ(adapter.targets.size(), 35'000u);
  const AdaptedTensors adapted = adapted_tensors(model, adapter);
  EXPECT_EQ(adapted.trained.size(), 70'000u);
  EXPECT_EQ(adapted.frozen.size(), tensors_of(model).size());
}

TEST(Adapter, InitialFactorsAreThoseOfPeft) {
  const config::Recipe recipe = lora();
  const AdaptedTensors tensors = adapted(recipe);
  const InitialFactor a = initial_factor(ModelSpec(recipe), recipe.adapter, tensors.trained[0]);
  const InitialFactor b = initial_factor(ModelSpec(recipe), recipe.adapter, tensors.trained[1]);
  EXPECT_DOUBLE_EQ(a.bound, 1 / std::sqrt(32.0));
  EXPECT_EQ(b.bound, 0);
  EXPECT_EQ(a.deviation + b.deviation, 0);
}

TEST(Adapter, InitialProductsOfLowRankHaveTheDeviationOfTheirMatrix) {
  const config::Recipe recipe =
      recipe_with({"adapter.kind=low_rank", "adapter.rank=4", "adapter.alpha=2"});
  for (const TensorSpec& tensor : adapted(recipe).trained) {
    if (!is_factor(tensor)) continue;
    const double deviation = initial_factor(ModelSpec(recipe), recipe.adapter, tensor).deviation;
    const bool residual = tensor.name.find("o_proj") != std::string::npos ||
                          tensor.name.find("down_proj") != std::string::npos;
    const double product = 0.5 * std::sqrt(4.0) * deviation * deviation;
    EXPECT_NEAR(product, residual ? 0.02 / 2 : 0.02, 1e-12) << tensor.name;
  }
}

TEST(Adapter, RefusesWhatDoesNotFit) {
  EXPECT_THAT(refusal({"adapter.rank=33"}),
              HasSubstr("[adapter] rank must be <= 32, the smaller dimension of "
                        "model.layers.0.self_attn.q_proj, got 33"));
  EXPECT_THAT(refusal({"adapter.targets=[\"q_prj\"]"}),
              AllOf(HasSubstr("[adapter] targets: \"q_prj\" matches no matrix of the blocks"),
                    HasSubstr("model.layers.1.mlp.down_proj")));
  EXPECT_THAT(refusal({"adapter.targets=[\"lm_head\"]"}), HasSubstr("matches no matrix"));
  EXPECT_THAT(refusal({"adapter.targets=[]"}), HasSubstr("[adapter] targets is empty"));
  EXPECT_THAT(refusal({"adapter.whole=[\"q_proj\"]"}),
              HasSubstr("[adapter] whole: \"q_proj\" matches no tensor without factors"));
  EXPECT_THAT(refusal({"adapter.kind=lore"}), HasSubstr("did you mean lora?"));
  EXPECT_THAT(refusal({"optim.method=galore"}),
              HasSubstr("projects the gradients of whole matrices"));
  EXPECT_THAT(refusal({"adapter.kind=low_rank"}), HasSubstr("leave it out, or choose lora"));
  EXPECT_THAT(refusal({"adapter.kind=relora", "sync.method=distro"}),
              HasSubstr("needs [sync] method = \"allreduce\", got \"distro\""));
  EXPECT_THAT(refusal({"adapter.kind=relora", "optim.method=muon"}),
              HasSubstr("resets the state of [optim] method = \"adamw\", got \"muon\""));
  EXPECT_THAT(refusal({"adapter.kind=relora", "optim.state=8bit"}),
              HasSubstr("needs [optim] state = \"fp32\", got \"8bit\""));
  EXPECT_THAT(refusal({"adapter.kind=relora", "relora.merge_every=9", "relora.rewarm=10"}),
              HasSubstr("[relora] rewarm must be <= merge_every = 9, got 10"));
  EXPECT_THAT(tests::error_of([] { recipe_with({"adapter.kind=lora"}); }),
              HasSubstr("[adapter] kind = \"lora\" needs [train] init"));
  EXPECT_THAT(tests::error_of([] {
                recipe_with({"adapter.kind=low_rank", "adapter.whole=[\"*norm\"]"});
              }),
              HasSubstr("[adapter] whole = [\"*norm\"] has no effect"));
  EXPECT_THAT(tests::error_of([] {
                recipe_with({"adapter.kind=low_rank", "adapter.init=elsewhere"});
              }),
              HasSubstr("[adapter] init = \"elsewhere\" needs kind = \"lora\""));
}

TEST(Adapter, WorkLeavesOutTheGradientsOfFrozenMatrices) {
  const config::Recipe whole = recipe_with({});
  const config::Recipe recipe = lora({"adapter.rank=4"});
  const double sequence = 128;
  const double attention = 12.0 * 2 * 32 * sequence / 2;
  const double matrices = 2 * (4 * 32 * 32 + 3 * 32 * 64), head = 100 * 32;
  const double factors = 2 * 4 * (4 * (32 + 32) + 3 * (32 + 64));
  EXPECT_DOUBLE_EQ(train_flops_per_token(whole), 6 * (matrices + head) + attention);
  EXPECT_DOUBLE_EQ(train_flops_per_token(recipe), 4 * (matrices + head) + 6 * factors + attention);
}

TEST(Adapter, MemoryHoldsFrozenTensorsOnceAndTheRestOfWhatIsTrained) {
  const auto part = [](const config::Recipe& recipe, int64_t workers, const std::string& name) {
    const auto parts = run_memory(recipe, workers).parts;
    return std::ranges::find(parts, name, &MemoryPart::name)->bytes;
  };
  const auto bytes = [](const std::vector<TensorSpec>& tensors) {
    return 4.0 * static_cast<double>(arena_elements(tensors));
  };
  const config::Recipe recipe = lora({"train.workers=4"});
  const AdaptedTensors tensors = adapted(recipe);
  EXPECT_EQ(part(recipe, 4, "weights"), bytes(tensors.frozen) + 4 * bytes(tensors.trained));
  EXPECT_EQ(part(recipe, 1, "gradients"), bytes(tensors.trained));
  EXPECT_EQ(part(recipe, 1, "optimizer and method"), 2 * bytes(tensors.trained));
  const config::Recipe half = lora({"train.precision=bf16", "train.workers=4"});
  // Embedding and head are frozen; of these only the head is copied.
  const double copied = bytes(tensors.frozen) - bytes({tensors.frozen.front()});
  EXPECT_EQ(part(half, 4, "weights"),
            bytes(tensors.frozen) + 4 * copied / 2 + 6 * bytes(tensors.trained));
  // Frozen weights in bf16 need no copy, and factors stay in fp32.
  const config::Recipe stored =
      lora({"train.precision=bf16", "train.weights=bf16", "train.workers=4"});
  EXPECT_EQ(part(stored, 4, "weights"), bytes(tensors.frozen) / 2 + 6 * bytes(tensors.trained));
  // In nf4 matrices take 4.127 bits, in int8 8.5, and what their last blocks lack.
  for (const WeightFormat format : {WeightFormat::kNf4, WeightFormat::kInt8}) {
    const config::Recipe packed =
        lora({"train.precision=bf16", "train.weights=" + std::string(name_of(format)),
              "train.workers=4"});
    double expected = 0;
    for (const TensorSpec& tensor : tensors.frozen) {
      expected += tensor.is_hidden_matrix()
                      ? static_cast<double>(weight_bytes(format, tensor.count()))
                      : bytes({tensor}) / 2;
    }
    EXPECT_EQ(part(packed, 4, "weights"), expected + 6 * bytes(tensors.trained)) << name_of(format);
  }
}

TEST(Adapter, OnlyABaseThatIsWhollyFrozenIsReadIntoItsPlace) {
  EXPECT_TRUE(freezes_whole_base(lora()));
  EXPECT_TRUE(freezes_whole_base(lora({"adapter.kind=relora"})));
  EXPECT_FALSE(freezes_whole_base(lora({"adapter.whole=[\"model.norm\"]"})));
  EXPECT_FALSE(freezes_whole_base(recipe_with({"adapter.kind=relora"})));  // there is none
  EXPECT_FALSE(freezes_whole_base(recipe_with({"adapter.kind=low_rank"})));
  EXPECT_FALSE(freezes_whole_base(recipe_with({})));
}

TEST(Adapter, MemoryOfTheStartIsThatOfTheWeightsAndWhatIsReadBesideThem) {
  const std::vector<std::string> short_steps = {"model.hidden=2048", "llama.intermediate=4096",
                                                "train.batch=1", "train.sequence=1"};
  const auto bytes = [](const std::vector<TensorSpec>& tensors) {
    return 4.0 * static_cast<double>(arena_elements(tensors));
  };
  const auto expect_need = [&](std::vector<std::string> fields, double of_frozen, double of_base) {
    fields.insert(fields.end(), short_steps.begin(), short_steps.end());
    const config::Recipe recipe = lora(fields);
    const AdaptedTensors own = adapted(recipe);
    const double base = bytes(tensors_of(ModelSpec(recipe)));
    EXPECT_EQ(run_memory(recipe, 1).total(),
              bytes(own.trained) + of_frozen * bytes(own.frozen) + of_base * base);
  };
  // The largest tensor's share of the base.
  const config::Recipe recipe = lora(short_steps);
  const double one = 2048 * 4096 * 4.0 / bytes(tensors_of(ModelSpec(recipe)));
  expect_need({}, 1, one);
  expect_need({"adapter.whole=[\"model.norm\"]"}, 1, 1 + one);
  expect_need({"train.precision=bf16", "train.weights=bf16"}, 0.5, 2 * one);
  // A step with longer rows takes more than the start, which then adds nothing.
  for (const MemoryPart& part : run_memory(lora({"train.sequence=4096"}), 1).parts) {
    EXPECT_NE(part.name, "start");
  }
}

TEST(Relora, MergesAndRewarmsEachCycle) {
  const config::Recipe recipe = recipe_with(
      {"adapter.kind=relora", "relora.merge_every=10", "relora.rewarm=4", "train.steps=30"});
  EXPECT_FALSE(merges_after(recipe, 0));
  EXPECT_TRUE(merges_after(recipe, 10));
  EXPECT_FALSE(merges_after(recipe, 15));
  EXPECT_FALSE(merges_after(recipe, 30));  // nothing follows
  EXPECT_EQ(rewarm_factor(recipe, 0), 1);
  EXPECT_EQ(rewarm_factor(recipe, 9), 1);
  EXPECT_EQ(rewarm_factor(recipe, 10), 0.25);
  EXPECT_EQ(rewarm_factor(recipe, 12), 0.75);
  EXPECT_EQ(rewarm_factor(recipe, 14), 1);
  EXPECT_EQ(rewarm_factor(recipe, 20), 0.25);
  EXPECT_EQ(rewarm_factor(recipe_with({"relora.merge_every=10"}), 10), 1);
  EXPECT_FALSE(merges_after(recipe_with({"relora.merge_every=10"}), 10));
}

}  // namespace
}  // namespace thinwire::method
