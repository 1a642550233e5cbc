#include "thinwire/method/sync_spec.h"

#include <gtest/gtest.h>

#include "thinwire/config/recipe.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

config::Recipe recipe_with(const std::vector<std::string>& overrides) {
  return load_recipe("", overrides);
}

TEST(SyncSpec, NamesThePresetsAlgorithmWithThePresetsOptions) {
  const config::Recipe recipe =
      recipe_with({"sync.method=local_sgd", "train.steps=12", "sync.timeout_s=3"});
  const SyncSpec spec = sync_spec(recipe);
  EXPECT_EQ(spec.method.name, "diloco");
  EXPECT_EQ(&spec.method.options, &recipe.section("local_sgd"));
  EXPECT_EQ(spec.steps, 12);
  EXPECT_EQ(spec.timeout_s, 3);
  EXPECT_EQ(spec.optim.lr, recipe.optim.lr);
  EXPECT_EQ(spec.clip, recipe.optim.clip);
}

TEST(SyncSpec, AWorkerAloneTrainsByAllReduceOfOne) {
  const config::Recipe recipe = recipe_with({"sync.method=diloco"});
  const SyncSpec spec = sync_spec(recipe);
  EXPECT_EQ(spec.clusters, 0);
  EXPECT_EQ(spec.within.name, "allreduce");
}

TEST(SyncSpec, ClustersTrainByTheMethodWithin) {
  const config::Recipe recipe = recipe_with(
      {"sync.method=sparseloco", "train.workers=4", "sync.within=distro", "sync.clusters=2"});
  const SyncSpec spec = sync_spec(recipe);
  EXPECT_EQ(spec.method.name, "sparseloco");
  EXPECT_EQ(spec.clusters, 2);
  EXPECT_EQ(spec.within.name, "distro");
  EXPECT_EQ(&spec.within.options, &recipe.section("distro"));
}

TEST(SyncSpec, StepsAreReplicatedWhereSeveralWorkersTakeThem) {
  const auto replicated = [](const std::vector<std::string>& overrides, RunKind kind) {
    return sync_spec(recipe_with(overrides), kind).optim.replicated;
  };
  EXPECT_FALSE(replicated({}, RunKind::kJob));  // a single worker
  EXPECT_TRUE(replicated({}, RunKind::kHosted));
  EXPECT_TRUE(replicated({"train.workers=2"}, RunKind::kJob));
  for (const RunKind kind : {RunKind::kJob, RunKind::kHosted}) {
    const std::vector<std::string> local = {"sync.method=diloco", "train.workers=4"};
    EXPECT_FALSE(replicated(local, kind));
    std::vector<std::string> clustered = local;
    clustered.insert(clustered.end(), {"sync.clusters=2", "sync.within=allreduce"});
    EXPECT_TRUE(replicated(clustered, kind));
  }
}

}  // namespace
}  // namespace thinwire::method
