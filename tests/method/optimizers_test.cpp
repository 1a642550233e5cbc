// What holds for the facts of every optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optimizers/adamw/adamw_spec.h"
#include "thinwire/optimizers/muon/muon_spec.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

config::Recipe recipe_with(std::vector<std::string> fields) {
  fields.push_back("model.vocab=300");
  return load_recipe({}, fields);
}

TEST(Optimizers, HaveTablesThatNothingElseHas) {
  std::set<std::string> names;
  for (const Method* method : all_methods()) names.emplace(method->name);
  config::Recipe recipe;
  for (const auto& [table, section] : recipe.sections()) names.insert(table);
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    EXPECT_TRUE(names.emplace(optimizer->name).second) << optimizer->name;
    EXPECT_EQ(optimizer->options()->chosen_by(), "optim.method") << optimizer->name;
    EXPECT_TRUE(optimizer->sentence.ends_with('.')) << optimizer->name;
    EXPECT_EQ(&find_optimizer(optimizer->name), optimizer);
  }
}

TEST(Optimizers, UnknownNamesGetTheListOfKnownOnesAndBlameTheOverride) {
  try {
    recipe_with({"optim.method=adamx"});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("override 'optim.method=adamx': [optim] method must be one of "
                                "adamw, "),
                      HasSubstr("got \"adamx\"; did you mean adamw?")));
  }
}

TEST(Optimizers, StateIsWhatTheirPagesSay) {
  const auto tensors = tensors_of(recipe_with({}));
  double matrices = 0, others = 0;
  for (const TensorSpec& tensor : tensors) {
    (tensor.is_hidden_matrix() ? matrices : others) +=
        static_cast<double>(arena_elements({&tensor, 1}));
  }
  EXPECT_EQ(optimizer_bytes(recipe_with({}), tensors), 8 * (matrices + others));
  const StateBytes muon = optimizer_state(recipe_with({"optim.method=muon"}), tensors);
  EXPECT_EQ(muon.consensus, 4 * matrices + 8 * others);
  EXPECT_EQ(muon.local, 0);
}

TEST(Optimizers, FieldsKeepTheirOldNames) {
  const config::Recipe recipe =
      recipe_with({"optim.method=muon", "optim.muon_lr=0.5", "optim.muon_momentum=0.8",
                   "optim.beta1=0.7", "optim.beta2=0.6", "optim.eps=0.25"});
  const OptimizerOptions options = optimizer_options(recipe);
  EXPECT_EQ(options.section<MuonOptions>("muon").lr, 0.5);
  EXPECT_EQ(options.section<MuonOptions>("muon").momentum, 0.8);
  EXPECT_EQ(options.section<AdamwOptions>("adamw").beta1, 0.7);
  EXPECT_EQ(options.section<AdamwOptions>("adamw").beta2, 0.6);
  EXPECT_EQ(options.section<AdamwOptions>("adamw").eps, 0.25);
  EXPECT_THAT(recipe.notices, ElementsAre("optim.muon_lr is now called muon.lr",
                                          "optim.muon_momentum is now called muon.momentum",
                                          "optim.beta1 is now called adamw.beta1",
                                          "optim.beta2 is now called adamw.beta2",
                                          "optim.eps is now called adamw.eps"));
  EXPECT_THAT(config::print_recipe(recipe), HasSubstr("[muon]\nlr = 0.5\nmomentum = 0.8\n"));
  EXPECT_THAT(
      config::parse_recipe(config::print_recipe(recipe), "again", {}, method_sections()).notices,
      IsEmpty());
}

// The names of sweep folders and of runs depend on it.
TEST(Optimizers, FieldsKeepTheirPlaceInTheIdentityOfARun) {
  const config::Recipe recipe =
      recipe_with({"optim.method=muon", "muon.momentum=0.8", "muon.lr=0.5", "adamw.eps=0.25",
                   "adamw.beta2=0.6", "optim.clip=2", "optim.lr=1", "schedule.warmup=3",
                   "allreduce.wire=fp32", "adamw.beta1=0.7", "optim.weight_decay=0"});
  EXPECT_EQ(config::print_changes(recipe, recipe_with({})),
            "optim.method = \"muon\"\noptim.lr = 1.0\noptim.beta1 = 0.7\noptim.beta2 = 0.6\n"
            "optim.eps = 0.25\noptim.weight_decay = 0.0\noptim.clip = 2.0\noptim.muon_lr = 0.5\n"
            "optim.muon_momentum = 0.8\nschedule.warmup = 3\nallreduce.wire = \"fp32\"\n");
}

TEST(Optimizers, AreExplainedByTheirTablesAndByOldNames) {
  EXPECT_THAT(explain_recipe("optim.method"),
              HasSubstr("        muon: Steps along an orthogonalized momentum"));
  EXPECT_THAT(explain_recipe("muon"),
              HasSubstr("[muon]\n  Steps along an orthogonalized momentum"));
  for (const char* old : {"optim.muon_lr", "muon_lr"}) {
    EXPECT_THAT(explain_recipe(old),
                HasSubstr("optim.muon_lr is now called muon.lr.\n\n[muon]\n  lr: number;"));
  }
}

TEST(Optimizers, TablesOfWhenAreMethodsAlone) {
  const std::string toml = "[when.muon]\noptim.lr = 1\n";
  EXPECT_THROW(config::parse_recipe(toml, "test", {}, method_sections()), UsageError);
}

}  // namespace
}  // namespace thinwire::method
