// The shipped recipes: each one resolves, and has the model and the amount of text given in its
// paper.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using config::Recipe;
using config::TrainSection;

Recipe shipped(const std::string& name) {
  return load_recipe(tests::source_file("recipes") / (name + ".toml"), {});
}

double parameters(const Recipe& recipe) {
  return static_cast<double>(parameter_count(tensors_of(recipe)));
}

double tokens(const Recipe& recipe) {
  const TrainSection& train = recipe.train;
  return static_cast<double>(train.steps * train.batch * train.sequence);
}

struct Known {
  const char* name;
  double parameters;
  double tokens;            // the paper's
  double tokens_tolerance;  // relative: a whole number of steps, or the paper's rounding
};

constexpr Known kKnown[] = {
    {"llama2-1.2b", 1'204'881'408, 104.8576e9, 0}, {"eager-35m", 35'658'240, 700e6, 1e-3},
    {"eager-100m", 88'291'584, 1.5e9, 1e-3},       {"eager-200m", 184'574'976, 3.5e9, 1e-3},
    {"eager-300m", 338'369'280, 6e9, 1e-3},        {"eager-500m", 558'816'768, 11e9, 1e-3},
    {"eager-1b", 1'279'887'360, 25e9, 1e-3},       {"galore-60m", 58'073'600, 1.31e9, 0.01},
    {"galore-130m", 134'105'856, 2.62e9, 0.01},    {"galore-350m", 367'969'280, 7.86e9, 0.01},
    {"galore-1b", 1'339'082'752, 13.1e9, 0.01},    {"galore-7b", 6'738'415'616, 19.7e9, 0.01},
};

class KnownRecipe : public testing::TestWithParam<Known> {};

INSTANTIATE_TEST_SUITE_P(Recipes, KnownRecipe, testing::ValuesIn(kKnown), [](const auto& known) {
  std::string name = known.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
});

TEST_P(KnownRecipe, HasThePapersParametersAndTokens) {
  const Recipe recipe = shipped(GetParam().name);
  EXPECT_EQ(parameters(recipe), GetParam().parameters);
  EXPECT_NEAR(tokens(recipe), GetParam().tokens, GetParam().tokens * GetParam().tokens_tolerance);
}

TEST_P(KnownRecipe, SharesItsBatchEvenly) {
  const TrainSection& train = shipped(GetParam().name).train;
  EXPECT_EQ(train.batch % (train.workers * train.microbatch), 0);
}

// Table 6 of the eager paper prints 6 * parameters * tokens.
TEST(EagerRecipes, TakeThePapersFlops) {
  for (const auto& [name, flops] : {std::pair{"eager-35m", 1.5e17}, std::pair{"eager-200m", 4e18},
                                    std::pair{"eager-1b", 1.9e20}}) {
    const Recipe recipe = shipped(name);
    EXPECT_NEAR(6 * parameters(recipe) * tokens(recipe), flops, 0.035 * flops) << name;
  }
}

TEST(ShippedRecipes, AreAllNamedAfterTheirFileAndResolve) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(tests::source_file("recipes"))) {
    const std::string name = entry.path().stem().string();
    EXPECT_EQ(shipped(name).run.name, name);
    ++count;
  }
  EXPECT_GE(count, 13);
}

TEST(ShippedRecipes, DemonstrationsStaySmall) {
  for (const char* name : {"quickstart", "tiny"}) {
    Recipe recipe = shipped(name);
    recipe.model.vocab = recipe.data.vocabulary_size;
    EXPECT_LE(parameters(recipe), 3.05e6) << name;
  }
}

TEST(ShippedRecipes, QuickstartsDistroSendsAHundredTimesFewerBytesThanARing) {
  Recipe recipe = load_recipe(tests::source_file("recipes/quickstart.toml"),
                              std::vector<std::string>{"sync.method=distro"});
  recipe.model.vocab = recipe.data.vocabulary_size;
  const auto tensors = tensors_of(recipe);
  const auto members = static_cast<int>(recipe.train.workers);
  const double sent = find_method("distro").traffic(recipe, tensors, members).sent_bytes;
  EXPECT_GT(ring_bytes(parameter_count(tensors), members) / sent, 100);
}

}  // namespace
}  // namespace thinwire::method
