
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> ignored(const std::vector<std::string>& fields) {
  return ignored_fields(load_recipe({}, fields));
}

TEST(IgnoredFields, AreThoseOfOtherMethods) {
  EXPECT_THAT(ignored({"distro.k=64"}),
              ElementsAre("distro.k = 64 is ignored: sync.method is allreduce"));
  EXPECT_THAT(ignored({"distro.k=64", "sync.method=distro"}), IsEmpty());
  EXPECT_THAT(ignored({"distro.k=64", "sync.method=diloco", "sync.within=distro", "sync.clusters=2",
                       "train.workers=4"}),
              IsEmpty());
}

// An encoder that comes from train.init, after the recipe was resolved for a Llama.
TEST(IgnoredFields, AreNotThoseThatWereDerivedFromOthers) {
  config::Recipe recipe =
      load_recipe({}, std::vector<std::string>{"train.init=x", "model.heads=4"});
  recipe.model.architecture = "roberta";
  EXPECT_THAT(ignored_fields(recipe), IsEmpty());
}

TEST(IgnoredFields, AreThoseOfOtherSchedules) {
  EXPECT_THAT(ignored({"schedule.decay=10"}),
              ElementsAre("schedule.decay = 10 is ignored: schedule.kind is cosine"));
  EXPECT_THAT(ignored({"schedule.kind=constant", "schedule.final_ratio=0.5"}),
              ElementsAre("schedule.final_ratio = 0.5 is ignored: schedule.kind is constant"));
  EXPECT_THAT(ignored({"schedule.kind=wsd", "schedule.decay=10"}), IsEmpty());
}

TEST(IgnoredFields, AreTheOptimizersWhereDistroUpdates) {
  EXPECT_THAT(ignored({"sync.method=distro", "adamw.beta1=0.8"}),
              ElementsAre("adamw.beta1 = 0.8 is ignored: distro.update is sign, which needs no "
                          "optimizer"));
  EXPECT_THAT(ignored({"sync.method=distro", "optim.method=muon"}),
              ElementsAre("optim.method = \"muon\" is ignored: distro.update is sign, which needs "
                          "no optimizer"));
  EXPECT_THAT(ignored({"sync.method=distro", "distro.update=adamw", "adamw.beta1=0.8"}), IsEmpty());
}

TEST(IgnoredFields, AreThoseOfDistrosOtherUpdates) {
  EXPECT_THAT(ignored({"sync.method=distro", "distro.muon_scale=0.3"}),
              ElementsAre("distro.muon_scale = 0.3 is ignored: distro.update is sign"));
  EXPECT_THAT(ignored({"sync.method=distro", "distro.update=muon", "distro.muon_scale=0.3"}),
              IsEmpty());
}

TEST(IgnoredFields, AreThoseOfOtherOptimizers) {
  EXPECT_THAT(ignored({"muon.lr=0.5"}),
              ElementsAre("muon.lr = 0.5 is ignored: optim.method is adamw"));
  EXPECT_THAT(ignored({"optim.method=muon", "muon.lr=0.5", "adamw.beta1=0.8"}), IsEmpty());
}

TEST(IgnoredFields, AreOfData) {
  EXPECT_THAT(ignored({"data.vocabulary=byte", "data.vocabulary_size=100"}),
              ElementsAre("data.vocabulary_size = 100 is ignored: data.vocabulary is byte"));
  EXPECT_THAT(ignored({"train.init=here", "model.init_std=0.1", "links.loss=0.1"}),
              ElementsAre("model.init_std = 0.1 is ignored: train.init gives the weights",
                          "links.loss = 0.1 is ignored: one worker sends nothing"));
}

TEST(IgnoredFields, AreNoDefaults) { EXPECT_THAT(ignored({}), IsEmpty()); }

TEST(IgnoredFields, AreNotInTheShippedRecipes) {
  for (const auto& entry : fs::directory_iterator(tests::source_file("recipes"))) {
    EXPECT_THAT(ignored_fields(load_recipe(entry.path(), {})), IsEmpty()) << entry.path();
  }
}

}  // namespace
}  // namespace thinwire::method
