// Runs whose recipes leave numbers to rules (method/automatic.h).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/automatic.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/automatic.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kAuto = {"optim.lr=auto", "adamw.beta1=auto", "adamw.beta2=auto"};

class AutomaticNumbers : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  TrainResult run(std::vector<std::string> more, bool restart = false) {
    messages_.clear();
    TrainOptions options;
    options.restart = restart;
    options.display.message = [this](std::string_view text) {
      messages_.append(text).append("\n");
    };
    return train(tiny_recipe(folder_, std::move(more)), options);
  }
  TrainResult run_auto(std::vector<std::string> more = {}, bool restart = false) {
    more.insert(more.begin(), kAuto.begin(), kAuto.end());
    return run(std::move(more), restart);
  }

  double rate() const {
    config::Recipe kept = method::load_recipe(folder_ / "run" / "recipe.toml", {});
    return config::number_of(kept, "optim.lr").value();
  }

  fs::path folder_;
  std::string messages_;
};

TEST_F(AutomaticNumbers, TheRunKeepsThemAndSaysThem) {
  const std::string digest = run_auto().summary.digest;
  const double chosen = method::numbers_for({64, 12, 32}).lr;
  EXPECT_EQ(rate(), chosen);
  EXPECT_THAT(messages_, HasSubstr(fmt::format("optim.lr auto: {}\n", chosen)));
  fs::remove_all(folder_ / "run");
  const method::OptimizerNumbers rules = method::numbers_for({64, 12, 32});
  EXPECT_EQ(run({fmt::format("optim.lr={}", rules.lr), fmt::format("adamw.beta1={}", rules.beta1),
                 fmt::format("adamw.beta2={}", rules.beta2)})
                .summary.digest,
            digest);
}

// So does one that an older program began, whose numbers were other defaults.
TEST_F(AutomaticNumbers, ARunGoesOnWithThoseItBeganWith) {
  const std::string whole = run({"optim.lr=0.001", "train.steps=12"}).summary.digest;
  fs::remove_all(folder_ / "run");
  run({"optim.lr=0.001", "train.steps=12", "checkpoint.every=6", "checkpoint.keep=9"});
  fs::remove(folder_ / "run" / "summary.json");
  fs::remove_all(folder_ / "run" / "checkpoints" / checkpoint::checkpoint_name(12));
  EXPECT_EQ(run_auto().summary.digest, whole);
  EXPECT_THAT(messages_, HasSubstr("optim.lr auto: 0.001, with which the run began\n"));
  EXPECT_EQ(rate(), 0.001);
}

TEST_F(AutomaticNumbers, MoreStepsDoNotChangeThem) {
  // A rate that the rule gives neither before nor after.
  run({"optim.lr=0.002"});
  EXPECT_EQ(run_auto({"train.steps=14"}).summary.steps, 14);
  EXPECT_EQ(rate(), 0.002);
}

TEST_F(AutomaticNumbers, ARestartChoosesAnew) {
  run({"optim.lr=0.001"});
  run_auto({}, true);
  EXPECT_EQ(rate(), method::numbers_for({64, 12, 32}).lr);
}

TEST_F(AutomaticNumbers, AnotherNumberIsRefusedAsEver) {
  run_auto();
  EXPECT_THAT(tests::error_of([&] { run({"optim.lr=0.5"}); }), HasSubstr("optim.lr was "));
}

}  // namespace
}  // namespace thinwire::launch
