// Runs over simulated links: the exact time that they would have taken.
#include <gtest/gtest.h>

#include <utility>

#include "tests/tiny_run.h"
#include "thinwire/base/wire.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/method/gradient_sums.h"

namespace thinwire::launch {
namespace {

class Simulated : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }

  // Steps of 1 s, and links on which the sum of the model's fp32 values takes `reduce_s`.
  config::Recipe recipe(double reduce_s, std::vector<std::string> overrides) {
    method::ModelSpec model(tiny_recipe(folder_));
    model.vocab = 258;
    const auto values = static_cast<uint64_t>(method::arena_elements(method::tensors_of(model)));
    const double bits = 8 * static_cast<double>(wire_bytes(WireType::kF32, values));
    const std::string rate = std::to_string(bits / reduce_s);
    std::vector<std::string> all = {"links.step_s=1", "links.delay_s=0", "links.up_bit_s=" + rate,
                                    "links.down_bit_s=" + rate};
    all.push_back("run.dir=" + (folder_ / std::to_string(runs_++)).string());
    all.insert(all.end(), overrides.begin(), overrides.end());
    return tiny_recipe(folder_, all);
  }

  events::Summary diloco(double reduce_s, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(),
                     {"sync.method=diloco", "diloco.sync_every=6", "diloco.wire=fp32"});
    return train(recipe(reduce_s, overrides), {}).summary;
  }

  fs::path folder_;
  int runs_ = 0;
};

// 12 steps with a sum every 6 steps, which takes the time of 3.
TEST_F(Simulated, OverlapHidesWhatItsScheduleAllows) {
  const auto seconds = [&](std::vector<std::string> overrides) {
    const events::Summary summary = diloco(3, std::move(overrides));
    EXPECT_NEAR(summary.compute_utilization, 12 / summary.seconds_over_links, 1e-9);
    return summary.seconds_over_links;
  };
  EXPECT_NEAR(seconds({}), 12 + 3 + 3, 1e-4) << "waits for both sums";
  EXPECT_NEAR(seconds({"diloco.overlap=inner"}), 12 + 2 + 3, 1e-4) << "hides a step of the first";
  EXPECT_NEAR(seconds({"diloco.overlap=inner", "diloco.overlap_steps=4"}), 12 + 3, 1e-4);
  EXPECT_NEAR(seconds({"diloco.overlap=delayed"}), 12 + 3, 1e-4) << "waits at the end only";
  EXPECT_NEAR(seconds({"diloco.overlap=eager"}), 12 + 3, 1e-4);
}

// A sum takes 8 s of delay: with steps of 1 s and 6 of them between sums, one outer step hides 6.
TEST_F(Simulated, EagerUpdatesTwoStepsDeepTolerateMoreDelay) {
  const auto seconds = [&](const std::string& depth) {
    return diloco(1e-9, {"links.delay_s=4s", "train.steps=24", "diloco.overlap=eager",
                         "diloco.depth=" + depth})
        .seconds_over_links;
  };
  // Sent at 6, 12, 20, 26; the first is waited for from 12 to 14, the third to 28, the last to 34.
  EXPECT_NEAR(seconds("1"), 34, 1e-4);
  EXPECT_NEAR(seconds("2"), 24 + 8, 1e-4) << "waits at the end only";
}

// 12 steps, each with a sum of 3 s that begins when the head's gradient is complete.
TEST_F(Simulated, AnAllReduceHidesBehindTheBackwardPass) {
  const auto seconds = [&](double reduce_s, std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"sync.method=allreduce", "allreduce.wire=fp32",
                                       "train.workers=2", "train.batch=4", "model.vocab=258"});
    const config::Recipe recipe = Simulated::recipe(reduce_s, overrides);
    const auto shares = method::completion_shares(recipe, method::tensors_of(recipe), 2);
    return std::pair(train(recipe, {}).summary.seconds_over_links / 12, shares.front());
  };
  const auto [whole, unused] = seconds(3, {"allreduce.hide=false"});
  EXPECT_NEAR(whole, 1 + 3, 1e-4);
  const auto [hidden, first] = seconds(3, {});
  EXPECT_NEAR(hidden, first + 3, 1e-4);
  const auto [accumulated, later] = seconds(3, {"train.microbatch=1"});
  EXPECT_NEAR(accumulated, later + 3, 1e-4);
  EXPECT_NEAR(1 - later, (1 - first) / 2, 1e-9) << "in the second of two passes";
  const auto [layer, same] = seconds(3, {"train.update=layer", "optim.clip=0"});
  EXPECT_NEAR(layer, hidden, 0.01) << "a line that is never idle loses nothing by waits in between";
}

TEST_F(Simulated, TimesAreTheSameInEveryRun) {
  const std::vector<std::string> overrides = {"sync.method=distro", "train.workers=3",
                                              "links.members=[\"2.step_s=1.5\"]"};
  const events::Summary first = train(recipe(3, overrides), {}).summary;
  const events::Summary second = train(recipe(3, overrides), {}).summary;
  EXPECT_GT(first.seconds_over_links, 18) << "the slowest member's steps";
  EXPECT_EQ(first.seconds_over_links, second.seconds_over_links);
  EXPECT_EQ(first.compute_utilization, second.compute_utilization);
}

TEST_F(Simulated, LinksLeaveTheBitsAlone) {
  const auto digest = [&](const std::string& step_s) {
    return train(recipe(3, {"sync.method=diloco", "links.step_s=" + step_s}), {}).summary.digest;
  };
  EXPECT_EQ(digest("0"), digest("2"));
}

}  // namespace
}  // namespace thinwire::launch
