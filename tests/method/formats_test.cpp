
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/method.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(std::vector<std::string> fields) {
  fields.emplace_back("train.weights=bf16");
  return tests::error_of([&] { load_recipe({}, fields); });
}

config::Recipe recipe(std::vector<std::string> fields) {
  fields.emplace_back("model.vocab=512");
  return load_recipe({}, fields);
}

TEST(WeightsInBf16, NeedProductsOfBf16OnTheProcessor) {
  for (const char* precision : {"fp32", "auto"}) {
    EXPECT_THAT(refusal({std::string("train.precision=") + precision}),
                AllOf(HasSubstr("[train] weights = \"bf16\" needs precision = \"bf16\", got"),
                      HasSubstr(precision)));
  }
  EXPECT_THAT(refusal({"train.precision=bf16", "train.device=cuda"}),
              HasSubstr("[train] weights = \"bf16\" needs device = \"cpu\", got \"cuda\""));
  EXPECT_EQ(refusal({"train.precision=bf16"}), tests::kNoError);
}

TEST(WeightsInBf16, NeedAMethodThatLeavesThemToTheOptimizer) {
  for (const Method* method : all_methods()) {
    const std::string message =
        refusal({"train.precision=bf16", "sync.method=" + std::string(method->name)});
    if (method->keeps_bf16_weights) {
      EXPECT_EQ(message, tests::kNoError);
    } else {
      EXPECT_THAT(message,
                  AllOf(HasSubstr("changes weights only through the optimizer (allreduce)"),
                        HasSubstr(method->name)));
    }
  }
}

TEST(WeightsInBf16, AreThoseThatAnAdapterLeavesAsTheyAre) {
  const auto refusal_with = [](const std::string& kind, const std::string& method) {
    return tests::error_of([&] {
      check_choices(load_recipe(
          {},
          std::vector<std::string>{"train.weights=bf16", "train.precision=bf16", "train.init=base",
                                   "adapter.kind=" + kind, "sync.method=" + method}));
    });
  };
  for (const Method* method : all_methods()) {
    EXPECT_EQ(refusal_with("lora", std::string(method->name)), tests::kNoError) << method->name;
  }
  EXPECT_THAT(
      refusal_with("relora", "allreduce"),
      HasSubstr("[train] weights = \"bf16\" needs [adapter] kind = \"lora\" or \"none\", got "
                "\"relora\""));
  EXPECT_THAT(refusal({"train.precision=bf16", "adapter.kind=low_rank"}),
              HasSubstr("got \"low_rank\""));
}

TEST(EncodedWeights, AreThoseThatNoStepChanges) {
  const auto refusal_with = [](const std::string& format, const std::string& kind) {
    return tests::error_of([&] {
      check_choices(load_recipe(
          {}, std::vector<std::string>{"train.weights=" + format, "train.precision=bf16",
                                       "train.init=base", "adapter.kind=" + kind}));
    });
  };
  for (const std::string format : {"nf4", "int8"}) {
    EXPECT_EQ(refusal_with(format, "lora"), tests::kNoError);
    for (const std::string kind : {"none", "relora", "low_rank"}) {
      EXPECT_THAT(
          refusal_with(format, kind),
          HasSubstr("[train] weights = \"" + format + "\" needs [adapter] kind = \"lora\", got \"" +
                    kind + "\": only weights that no step changes"));
    }
  }
  EXPECT_THAT(tests::error_of([] {
                load_recipe({}, std::vector<std::string>{"train.weights=nf4", "adapter.kind=lora"});
              }),
              HasSubstr("[train] weights = \"nf4\" needs precision = \"bf16\", got \"fp32\""));
  EXPECT_THAT(
      tests::error_of([] { load_recipe({}, std::vector<std::string>{"train.weights=int4"}); }),
      HasSubstr("fp32, bf16, nf4, int8"));
}

TEST(Formats, TakeTheirBytes) {
  const auto bytes = [](const std::vector<std::string>& fields) {
    const config::Recipe used = recipe(fields);
    const auto tensors = tensors_of(used);
    const StateBytes state = find_method(used.sync.method).state(used, tensors);
    const StepMemory memory = step_memory(used, tensors, state, 1);
    return std::pair(memory.weights, memory.consensus);
  };
  const std::vector<TensorSpec> tensors = tensors_of(recipe({}));
  const auto n = static_cast<double>(arena_elements(tensors));
  EXPECT_EQ(bytes({}), std::pair(4 * n, 8 * n));
  // Products do not read an embedding that is not the head.
  const auto embedding = static_cast<double>(arena_elements(std::span(tensors).first(1)));
  EXPECT_EQ(bytes({"train.precision=bf16", "optim.state=bf16"}),
            std::pair(6 * n - 2 * embedding, 4 * n));
  EXPECT_EQ(bytes({"train.precision=bf16", "model.tied=true"}).first, 6 * (n - embedding));
  const auto [weights, state] =
      bytes({"train.precision=bf16", "train.weights=bf16", "optim.state=8bit"});
  EXPECT_EQ(weights, 2 * n);
  EXPECT_NEAR(state, 2 * n * 65 / 64, 0.01 * n);
}

TEST(Formats, OfBasesHaveAFieldOfTheirOwn) {
  const auto state = [](const char* bases) {
    const config::Recipe used =
        recipe({"optim.method=galore", "galore.rank=64", std::string("optim.bases=") + bases});
    return optimizer_bytes(used, tensors_of(used));
  };
  double values = 0;
  const config::Recipe used = recipe({"optim.method=galore", "galore.rank=64"});
  for (const TensorSpec& tensor : tensors_of(used)) {
    if (!tensor.is_hidden_matrix()) continue;
    values += 64.0 * static_cast<double>(std::min(tensor.shape[0], tensor.shape[1]));
  }
  EXPECT_EQ(state("fp32") - state("bf16"), 2 * values);
  EXPECT_EQ(state("fp32") - state("8bit"), 3 * values - values / 64);
}

TEST(Formats, OfBasesNeedAnOptimizerThatHasSome) {
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    const std::string name(optimizer->name);
    const std::string message = tests::error_of([&] {
      load_recipe({}, std::vector{"optim.method=" + name, std::string("optim.bases=8bit")});
    });
    if (name == "adamw" || name == "muon" || name == "scale") {
      EXPECT_THAT(message,
                  HasSubstr("[optim] bases = \"8bit\" needs an optimizer that keeps bases of "
                            "subspaces (apollo, fira, galore, natural_galore), got method = \"" +
                            name + "\"; choose one of them or bases = \"fp32\""));
    } else {
      EXPECT_EQ(message, tests::kNoError);
    }
  }
}

TEST(Formats, OfBlockInputsNeedBlocksThatAreRecomputedInBf16) {
  const auto refusal = [](std::vector<std::string> fields) {
    fields.emplace_back("model.block_inputs=bf16");
    return tests::error_of([&] { load_recipe({}, fields); });
  };
  EXPECT_THAT(
      refusal({"train.precision=bf16"}),
      HasSubstr("[model] block_inputs = \"bf16\" needs recompute = \"block\", got \"none\""));
  EXPECT_THAT(refusal({"model.recompute=block", "train.precision=auto"}),
              HasSubstr("[model] block_inputs = \"bf16\" needs train.precision = \"bf16\", got "
                        "\"auto\""));
  EXPECT_EQ(refusal({"model.recompute=block", "train.precision=bf16"}), tests::kNoError);
}

TEST(Formats, OfStateAreIgnoredWithoutAnOptimizer) {
  EXPECT_THAT(
      ignored_fields(recipe({"sync.method=distro", "optim.state=8bit"})),
      ElementsAre("optim.state = \"8bit\" is ignored: distro.update is sign, which needs no "
                  "optimizer"));
}

}  // namespace
}  // namespace thinwire::method
