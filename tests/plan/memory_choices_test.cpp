#include "thinwire/plan/memory_choices.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> recipe_of(int rows, int tokens) {
  return {"model.vocab=4096",
          "model.hidden=256",
          "model.layers=4",
          "model.heads=4",
          "train.workers=1",
          fmt::format("train.batch={}", rows),
          fmt::format("train.sequence={}", tokens)};
}

const std::vector<std::string> kRecipe = recipe_of(8, 128);
constexpr double kProgram = 3e7;

// For all tests that only look at them: there are many.
const std::vector<MemoryChoice>& choices_of_the_recipe() {
  static const std::vector<MemoryChoice> all = memory_choices({}, kRecipe, kProgram);
  return all;
}

// With fields of a test's own. One row of one token cannot be cut, so there are fewer choices.
std::vector<MemoryChoice> choices(std::vector<std::string> more) {
  const std::vector<std::string> recipe = recipe_of(1, 1);
  more.insert(more.begin(), recipe.begin(), recipe.end());
  return memory_choices({}, more, kProgram);
}

const MemoryChoice& given(const std::vector<MemoryChoice>& all) {
  return *std::ranges::find_if(all, [](const MemoryChoice& one) { return one.fields.empty(); });
}

TEST(MemoryChoices, NeedWhatTheCheckBeforeARunSays) {
  const std::vector<MemoryChoice>& all = choices_of_the_recipe();
  EXPECT_GT(all.size(), 100u);
  for (size_t i = 0; i < all.size(); i += 17) {
    const MemoryChoice& one = all[i];
    std::vector<std::string> fields = kRecipe;
    for (const std::string& field : one.fields) {
      std::erase_if(fields, [&](const std::string& other) {
        return other.starts_with(field.substr(0, field.find('=') + 1));
      });
    }
    fields.insert(fields.end(), one.fields.begin(), one.fields.end());
    ASSERT_EQ(one.bytes(),
              method::run_memory(method::load_recipe({}, fields), 1).total() + kProgram)
        << fmt::format("{}", fmt::join(one.fields, " "));
  }
}

TEST(MemoryChoices, BeginWithTheRecipeItselfAndWithWhatChangesNothing) {
  const std::vector<MemoryChoice>& all = choices_of_the_recipe();
  EXPECT_THAT(all.front().fields, IsEmpty());
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &MemoryChoice::quality_cost));
  EXPECT_EQ(all[1].quality_cost, 0);
  EXPECT_EQ(all[1].flops, all[0].flops);
}

TEST(MemoryChoices, TheBestWithinALimitIsOneOfEachOptimizerThatFits) {
  const std::vector<MemoryChoice>& all = choices_of_the_recipe();
  const double whole = given(all).bytes();
  EXPECT_EQ(best_within(all, whole).front(), &given(all));
  const double limit = 0.5 * whole;
  const auto best = best_within(all, limit);
  ASSERT_THAT(best, Not(IsEmpty()));
  std::vector<std::string> names;
  for (const MemoryChoice* one : best) {
    EXPECT_LE(one->bytes(), limit);
    EXPECT_THAT(names, Not(Contains(one->optimizer)));
    names.push_back(one->optimizer);
  }
  EXPECT_THAT(names, Contains("galore, rank 64"));
  EXPECT_THAT(best_within(all, smallest(all).bytes() * 0.99), IsEmpty());
  const double least = smallest(all).bytes();
  ASSERT_THAT(best_within(all, least), Not(IsEmpty()));
  for (const MemoryChoice* one : best_within(all, least)) EXPECT_EQ(one->bytes(), least);
}

TEST(MemoryChoices, EndWithEverythingInFewBits) {
  // The model is so large that bf16 saves more than the code of bf16 products takes.
  const std::vector<MemoryChoice> all = choices({"optim.clip=0", "model.hidden=1024"});
  const std::vector<std::string> fields = smallest(all).fields;
  for (const char* field : {"train.weights=bf16", "optim.state=8bit", "model.block_inputs=bf16",
                            "train.update=layer"}) {
    EXPECT_THAT(fields, Contains(field));
  }
  const auto galore = std::ranges::find_if(all, [](const MemoryChoice& one) {
    return one.optimizer.starts_with("galore") &&
           std::ranges::find(one.fields, "optim.bases=8bit") != one.fields.end();
  });
  EXPECT_NE(galore, all.end());
}

TEST(MemoryChoices, OfAnAdapterEndWithTheBaseInFourBits) {
  std::vector<MemoryChoice> all =
      choices({"model.hidden=1024", "adapter.kind=lora", "train.init=base"});
  std::erase_if(all, [](const MemoryChoice& one) {
    return std::ranges::count(one.fields, "train.offload=true") > 0;
  });
  EXPECT_THAT(smallest(all).fields, Contains("train.weights=nf4"));
}

TEST(MemoryChoices, CutTheVocabularyIntoSlabsWhereNothingElseFits) {
  const std::vector<MemoryChoice> all = choices({"optim.clip=0", "model.vocab=65536"});
  const MemoryChoice& least = smallest(all);
  EXPECT_THAT(least.fields, Contains("model.vocab_slabs=8"));
  EXPECT_THAT(best_within(all, least.bytes()).front()->fields, Contains("model.vocab_slabs=8"));
}

TEST(MemoryChoices, LeaveOutWhatTheRecipeRulesOut) {
  for (const MemoryChoice& one : choices({"sync.method=distro"})) {
    EXPECT_THAT(one.fields, Not(Contains("train.update=layer")));
    EXPECT_THAT(one.fields, Not(Contains("optim.method=galore")));
  }
}

TEST(MemoryChoices, ReplaceFieldsThatWereGiven) {
  const auto all = choices({"model.recompute=none", "optim.method=galore", "galore.rank=8"});
  const auto wider = std::ranges::find(all, "galore, rank 64", &MemoryChoice::optimizer);
  ASSERT_NE(wider, all.end());
  EXPECT_THAT(all.front().optimizer, "galore");
}

TEST(StepWork, CountsWhatIsRecomputedAndWhatProjectionsSave) {
  const auto flops = [](std::vector<std::string> fields) {
    fields.insert(fields.begin(), kRecipe.begin(), kRecipe.end());
    const config::Recipe recipe = method::load_recipe({}, fields);
    return step_flops(recipe, method::tensors_of(recipe));
  };
  const double plain = flops({});
  EXPECT_LT(plain, flops({"model.recompute=attention"}));
  EXPECT_LT(flops({"model.recompute=attention"}), flops({"model.recompute=block"}));
  EXPECT_LT(flops({"model.recompute=block"}), 1.34 * plain);
  // Slabs of the head compute 4 instead of 3 of its products.
  EXPECT_NEAR(flops({"model.vocab_slabs=4", "train.update=layer", "optim.clip=0"}) - plain,
              2.0 * 8 * 128 * 4096 * 256, 1);
  const std::vector<std::string> galore = {"optim.method=galore", "galore.rank=32"};
  std::vector<std::string> projected = galore;
  projected.emplace_back("optim.gradients=projected");
  EXPECT_GT(flops(galore), plain);
  EXPECT_LT(flops(projected), plain);
}

}  // namespace
}  // namespace thinwire::plan
