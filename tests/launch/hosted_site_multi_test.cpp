// Sites of several ranks as members of a run on many hosts (docs/mpi.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/hosted_case.h"
#include "tests/launch/hosted_run.h"
#include "tests/launch/pairs_run.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/events/summary.h"
#include "thinwire/method/combinations.h"

namespace thinwire::launch {
namespace {

constexpr int kRanks = 3;

class HostedSite : public HostedCase {
 protected:
  // Whether its ranks can compute gradients together.
  bool prepare_site(int64_t steps) {
    if (!prepare(steps, kPatient, 2, {"train.batch=8"})) return false;
    try {
      method::check_command(recipe_, method::Command::kSite);
    } catch (const UsageError& error) {
      why_not_ = error.what();
    }
    const bool projects = GetParam().name.ends_with("_galore");
    EXPECT_EQ(!why_not_.empty(), projects) << why_not_;
    return why_not_.empty();
  }
};

// One of the first two members is a site, and so is one that joins later.
TEST_P(HostedSite, AgreesWithMembersThatAreAlone) {
  if (!prepare_site(42)) GTEST_SKIP() << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(8);
  run.start(0);
  run.start_site(1, kRanks);
  run.wait_until(begun());
  run.start_site(2, kRanks);
  run.wait_until(has_members(3));
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedSite, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

class HostedSiteThatLeaves : public HostedSite {};

// It comes back as a single machine, and as a site again, with the state that its ranks had.
TEST_P(HostedSiteThatLeaves, MayHaveOtherRanksWhenItReturns) {
  ASSERT_TRUE(prepare_site(60)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  run.hold_at(20);
  run.start(0);
  run.start_site(1, 2);
  run.wait_until([](const membership::State& state) { return state.next_round > 1; });
  EXPECT_EQ(run.leave(1).outcome, member::MemberOutcome::kLeft);
  run.start(1);
  run.wait_until_caught_up(1);
  EXPECT_EQ(run.leave(1).outcome, member::MemberOutcome::kLeft);
  run.start_site(1, kRanks);
  run.wait_until_caught_up(1);
  run.release();
  expect_agreement(run, {0, 1});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedSiteThatLeaves,
                         testing::ValuesIn(variants_named({"distro", "allreduce", "diloco"})),
                         [](const auto& test) { return test.param.name; });

// What rank 0 has besides the weights of a plain run, or has elsewhere.
class HostedSiteWith : public HostedSite {
 protected:
  // A run of 12 steps with so many ranks of the second member: its summary.
  events::Summary train_with(int ranks) {
    const fs::path folder = folder_ / ("ranks" + std::to_string(ranks));
    fs::create_directories(folder);
    config::Recipe recipe = recipe_;
    recipe.run.dir = (folder / "run").string();
    HostedRun run(recipe, folder, options_);
    run.start(0);
    run.wait_until(has_members(1));  // the first rows are its
    ranks == 1 ? run.start(1) : run.start_site(1, ranks);
    expect_agreement(run, {0, 1});
    return run.wait(1).summary;
  }
  void expect_the_losses_of_one_process() {
    const events::Summary alone = train_with(1), site = train_with(kRanks);
    EXPECT_NEAR(site.train_loss, alone.train_loss, 2e-3);
    ASSERT_EQ(site.val_loss.size(), alone.val_loss.size());
    for (const auto& [set, loss] : alone.val_loss) {
      EXPECT_NEAR(site.val_loss.at(set), loss, 2e-3) << set;
    }
  }
};

TEST_P(HostedSiteWith, HasTheLossesOfOneProcess) {
  ASSERT_TRUE(prepare_site(12)) << why_not_;
  expect_the_losses_of_one_process();
}

std::vector<Variant> stored_variants() {
  const auto variant = [](const char* method, const char* name, std::vector<std::string> fields) {
    return Variant{&method::find_method(method), name, std::move(fields)};
  };
  return {variant("diloco", "offload", {"train.offload=true"}),
          variant("diloco", "layers", {"train.update=layer", "optim.clip_by=previous"}),
          variant("allreduce", "weights_bf16", {"train.weights=bf16", "train.precision=bf16"}),
          variant("allreduce", "relora",
                  {"adapter.kind=relora", "adapter.rank=4", "relora.merge_every=4",
                   "relora.rewarm=1"})};
}

INSTANTIATE_TEST_SUITE_P(Kinds, HostedSiteWith, testing::ValuesIn(stored_variants()),
                         [](const auto& test) { return test.param.name; });

class HostedSiteOfPairs : public HostedSiteWith {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_pairs(folder_, 20);
  }
};

TEST_P(HostedSiteOfPairs, HasTheLossesOfOneProcess) {
  ASSERT_TRUE(prepare_site(12)) << why_not_;
  recipe_.data.records = config::RecordKind::kPreferences;
  recipe_.train.init = (folder_ / "base" / "run").string();
  recipe_.train.sequence = 48;
  recipe_.optim.lr = 1e-4;
  expect_the_losses_of_one_process();
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedSiteOfPairs, testing::ValuesIn(variants_named({"diloco"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
