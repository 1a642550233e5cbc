#include "thinwire/plan/initial_recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/automatic.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

InitialQuestion question() {
  return {.name = "mine",
          .text = {"a \"quoted\" book.txt", "more/"},
          .text_bytes = 40e6,
          .hours = 1,
          .flops = 100e9,
          .threads = 3};
}

TEST(InitialRecipe, IsARecipeWithItsCommentsAndWithout) {
  const InitialChoice choice = initial_recipe(question());
  const std::string file = testing::TempDir() + "initial_recipe.toml";
  std::ofstream(file) << choice.toml;
  EXPECT_EQ(config::print_recipe(method::load_recipe(file, {})),
            config::print_recipe(choice.recipe));
  EXPECT_EQ(choice.recipe.data.text, question().text);
  EXPECT_EQ(choice.recipe.train.threads, 3);
  EXPECT_EQ(method::automatic_numbers(choice.recipe).size(), 5) << "rate, averages, warm-up";
}

TEST(InitialRecipe, TheModelGrowsWithTheTime) {
  InitialQuestion asked = question();
  asked.text_bytes = 1e12;
  int64_t before = 0;
  for (const double hours : {0.1, 1.0, 10.0, 100.0, 1000.0}) {
    asked.hours = hours;
    const InitialChoice choice = initial_recipe(asked);
    EXPECT_GT(choice.parameters, before);
    before = choice.parameters;
    EXPECT_LE(choice.seconds, 3600 * hours);
    EXPECT_GE(choice.seconds, 3600 * hours / 8);
    EXPECT_FALSE(choice.text_is_short);
    const auto& train = choice.recipe.train;
    EXPECT_EQ(static_cast<double>(train.steps * train.batch * train.sequence), choice.tokens);
  }
}

TEST(InitialRecipe, AShortTextIsReadFourTimesAtMost) {
  InitialQuestion asked = question();
  asked.hours = 1e4;
  for (const double bytes : {200e3, 1e6, 4e6, 40e6}) {
    asked.text_bytes = bytes;
    for (const int64_t members : {1, 4}) {
      asked.members = members;
      const InitialChoice choice = initial_recipe(asked);
      EXPECT_TRUE(choice.text_is_short) << bytes;
      const auto& train = choice.recipe.train;
      EXPECT_LE(static_cast<double>(train.steps * train.batch * train.sequence),
                4 * choice.text_tokens);
      EXPECT_GE(train.steps, 100);
    }
  }
}

TEST(InitialRecipe, RowsAreDividedEvenlyAmongTheMembers) {
  InitialQuestion asked = question();
  for (const int64_t members : {1, 2, 3, 7, 40}) {
    asked.members = members;
    const config::Recipe recipe = initial_recipe(asked).recipe;
    EXPECT_EQ(recipe.train.workers, members);
    EXPECT_EQ(recipe.train.batch % members, 0);
  }
}

TEST(InitialRecipe, TheLineDecidesWhatIsExchanged) {
  InitialQuestion asked = question();
  asked.members = 4;
  asked.up_bit_s = 10e6;
  const config::Recipe thin = initial_recipe(asked).recipe;
  EXPECT_EQ(thin.sync.method, "streaming");
  asked.up_bit_s = 100e9;
  EXPECT_EQ(initial_recipe(asked).recipe.sync.method, "allreduce");
  asked.members = 1;
  asked.up_bit_s = 10e6;
  EXPECT_EQ(initial_recipe(asked).recipe.sync.method, "allreduce") << "nobody to exchange with";
}

// Asks for tuning a model of stories260K's shape.
InitialQuestion tuning_question() {
  InitialQuestion asked = question();
  std::vector<std::string> fields = tuning_fields("imported");
  for (const char* field :
       {"model.hidden=64", "model.layers=5", "model.heads=8", "model.vocab=512"}) {
    fields.emplace_back(field);
  }
  asked.model = {"imported", "imported/vocabulary.model", method::load_recipe({}, fields)};
  asked.text_bytes = 2e6;
  return asked;
}

TEST(InitialRecipe, ATrainedModelIsTunedByLowRankFactors) {
  const InitialChoice choice = initial_recipe(tuning_question());
  const config::Recipe& recipe = choice.recipe;
  EXPECT_EQ(recipe.train.init, "imported");
  EXPECT_EQ(recipe.data.vocabulary_model, "imported/vocabulary.model");
  EXPECT_EQ(recipe.adapter.kind, method::AdapterKind::kLora);
  EXPECT_EQ(recipe.optim.lr, 2e-4);
  EXPECT_LT(choice.parameters, 150'000) << "the factors alone";
  EXPECT_TRUE(choice.text_is_short);
  EXPECT_EQ(recipe.train.batch, 16);
  EXPECT_NEAR(choice.tokens, 3 * choice.text_tokens, 16 * 512);
}

TEST(InitialRecipe, TuningTakesSmallerStepsOrFewerOfThemWhereThereIsLess) {
  InitialQuestion asked = tuning_question();
  asked.text_bytes = 60e3;
  EXPECT_LT(initial_recipe(asked).recipe.train.batch, 16);
  EXPECT_GE(initial_recipe(asked).recipe.train.steps, 20);
  asked.text_bytes = 1e9;
  asked.hours = 0.1;
  const InitialChoice choice = initial_recipe(asked);
  EXPECT_FALSE(choice.text_is_short);
  EXPECT_LE(choice.seconds, 360);
  asked.text_bytes = 1e3;
  EXPECT_THAT(
      [&] { initial_recipe(asked); },
      ThrowsMessage<UsageError>(HasSubstr("769 tokens are too few for 1 member: they are 1")));
}

TEST(InitialRecipe, WhatIsTooLittleIsRefused) {
  InitialQuestion asked = question();
  asked.text_bytes = 99e3;
  EXPECT_THAT([&] { initial_recipe(asked); },
              ThrowsMessage<UsageError>(HasSubstr("the text has 99.0 kB")));
  asked.text_bytes = 1e9;
  asked.flops = 1e6;
  EXPECT_THAT(
      [&] { initial_recipe(asked); },
      ThrowsMessage<UsageError>(HasSubstr("1 h 00 min do not suffice: the smallest model")));
  asked.flops = 1e12;
  asked.text_bytes = 200e3;
  asked.members = 1000;
  EXPECT_THAT([&] { initial_recipe(asked); },
              ThrowsMessage<UsageError>(HasSubstr("are too few for 1000 members")));
}

}  // namespace
}  // namespace thinwire::plan
