#include "thinwire/method/combinations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const Feature& feature(const std::string& name) {
  const auto found = std::ranges::find(all_features(), name, &Feature::name);
  if (found == all_features().end()) throw std::runtime_error("no feature " + name);
  return *found;
}

Combination pair(const std::string& one, const std::string& other) {
  return *combine(feature(one), feature(other));
}

TEST(Combinations, EveryFeatureWorksAlone) {
  const Feature nothing{.name = "nothing", .field = "nothing", .sets = {}, .command = {}};
  std::set<std::string> names;
  for (const Feature& one : all_features()) {
    EXPECT_EQ(combine(one, nothing)->refusal, "") << one.name;
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
  }
}

TEST(Combinations, FeaturesAreAllValuesOfTheTables) {
  for (const Method* method : all_methods()) feature("sync.method = " + std::string(method->name));
  for (const OptimizerSpec* one : all_optimizers())
    feature("optim.method = " + std::string(one->name));
  for (const AdapterFacts& adapter : all_adapters()) {
    if (adapter.kind == AdapterKind::kNone) continue;
    feature("adapter.kind = " + std::string(name_of(adapter.kind)));
  }
  for (const char* value :
       {"distro.update = muon", "train.offload = true", "optim.state = 8bit",
        "sync.aggregate = majority_vote", "diloco.overlap = eager", "streaming.slices = 2"}) {
    feature(value);
  }
}

TEST(Combinations, SayWhatTheChecksSay) {
  EXPECT_TRUE(pair("adapter.kind = lora", "train.weights = bf16").works());
  EXPECT_THAT(tests::error_of([] {
                load_recipe("", std::vector<std::string>{"sync.method=distro", "train.workers=2",
                                                         "sync.absent=[\"1=1-1\"]"});
              }),
              HasSubstr(pair("sync.method = distro", "sync.absent = 1=1-1").refusal));
  EXPECT_TRUE(pair("adapter.kind = lora", "thinwire serve").works());
  EXPECT_THAT(
      pair("sync.within = allreduce", "thinwire serve").refusal,
      HasSubstr(
          "[sync] within must be \"none\" for members on many hosts, got \"allreduce\": machines "
          "that sum at every step are one member here, as the ranks of a site: `mpirun thinwire "
          "join`"));
  EXPECT_THAT(pair("sync.late = count", "sync.absent = 1=1-1").refusal,
              HasSubstr("[sync] absent must be empty for members on many hosts"));
  EXPECT_THAT(pair("optim.gradients = projected", "thinwire join train.launcher=mpi").refusal,
              HasSubstr("[optim] gradients must be \"whole\" where the ranks of a site"));
  const Combination idle = pair("optim.method = muon", "sync.method = distro");
  EXPECT_TRUE(idle.idle);
  EXPECT_THAT(idle.refusal, HasSubstr("optim.method = \"muon\" is ignored: distro.update is sign"));
  EXPECT_FALSE(combine(feature("optim.method = muon"), feature("optim.method = scale")));
  EXPECT_FALSE(combine(feature("thinwire serve"), feature("thinwire join --audit")));
}

TEST(Combinations, SayWhatElseIsNeeded) {
  EXPECT_THAT(
      pair("optim.method = galore", "sync.method = distro").besides,
      ElementsAre("distro.update=adamw", "optim.gradients=projected", "galore.basis=seeded"));
  EXPECT_THAT(pair("train.update = layer", "thinwire serve").besides,
              ElementsAre("sync.method=diloco"));
  EXPECT_EQ(pair("sync.late = count", "sync.quorum = 0.8").command, Command::kServe);
}

TEST(Combinations, AreTheSameInEitherOrder) {
  const std::vector<Feature>& all = all_features();
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = i % 7 + 1; j < all.size(); j += 7) {
      const auto one = combine(all[i], all[j]);
      const auto other = combine(all[j], all[i]);
      ASSERT_EQ(one.has_value(), other.has_value());
      if (!one) continue;
      EXPECT_EQ(one->works(), other->works()) << all[i].name << ", " << all[j].name;
    }
  }
}

TEST(Combinations, HaveAPageThatIsUpToDate) {
  EXPECT_TRUE(read_text_file(tests::source_file("docs/combinations.md")) == combinations_page())
      << "write it anew: thinwire recipe --combinations --markdown > docs/combinations.md";
}

}  // namespace
}  // namespace thinwire::method
