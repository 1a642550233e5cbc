// A model of the program's own (thinwire/own_model.h): every method trains it, and a run of it is a
// run like any other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/paths.h"
#include "tests/tiny_run.h"
#include "thinwire/joining.h"
#include "thinwire/run_status.h"
#include "thinwire/serving.h"
#include "thinwire/training.h"

namespace thinwire {
namespace {

constexpr int kSteps = 40;

// Learns y = 3 x0 - x1 + 2 from rows that say what x is.
OwnModel::Loss line(const std::vector<OwnTensor>& weights,
                    const std::vector<OwnTensor>& gradients) {
  return [=](std::span<const uint64_t> rows) {
    double sum = 0;
    for (const uint64_t row : rows) {
      const float x[] = {static_cast<float>(row % 7) / 7, static_cast<float>(row % 5) / 5};
      const auto w = weights[0].values;
      const float error = w[0] * x[0] + w[1] * x[1] + weights[1].values[0] - (3 * x[0] - x[1] + 2);
      sum += error * error;
      const float scale = 2 * error / static_cast<float>(rows.size());
      for (int i = 0; i < 2; ++i) gradients[0].values[i] += scale * x[i];
      gradients[1].values[0] += scale;
    }
    return sum / static_cast<double>(rows.size());
  };
}

class OwnModelCase : public testing::Test {
 protected:
  void SetUp() override { folder_ = test_folder(tests::memory_folder()); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  Recipe recipe(const std::string& run, std::vector<std::string> more = {}) const {
    std::vector<std::string> overrides = {"model.architecture=external",
                                          "external.tensors=[\"slope 1x2\", \"offset 1\"]",
                                          "train.sequence=1",
                                          "train.workers=2",
                                          "train.batch=16",
                                          "train.steps=" + std::to_string(kSteps),
                                          "optim.lr=0.1",
                                          "optim.weight_decay=0",
                                          "schedule.warmup=1",
                                          "log.tensorboard=false",
                                          "run.dir=" + (folder_ / run).string()};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return Recipe("", overrides);
  }

  TrainingResult train(const Recipe& recipe, TrainingOptions options = {}) const {
    options.own_model = &model_;
    return train_model(recipe, options);
  }

  OwnModel model_{.worker = line};
  std::filesystem::path folder_;
};

class OwnModelRun : public OwnModelCase, public testing::WithParamInterface<std::string> {};

// The method, with exchanges often enough that no worker is far ahead of the other.
std::vector<std::string> exchanging(const std::string& method) {
  std::vector<std::string> overrides = {"sync.method=" + method};
  try {
    Recipe("").get(method + ".sync_every");
    overrides.push_back(method + ".sync_every=4");
  } catch (const std::runtime_error&) {  // it exchanges in every step
  }
  return overrides;
}

TEST_P(OwnModelRun, IsTrained) {
  std::vector<double> losses;
  TrainingOptions options;
  options.on_step = [&](const events::StepEvent& step) { losses.push_back(step.loss); };
  const TrainingResult result = train(recipe("run", {"sync.method=" + GetParam()}), options);
  EXPECT_TRUE(result.finished);
  ASSERT_EQ(losses.size(), kSteps);
  EXPECT_LT(losses.back(), 0.7 * losses.front());
}

TEST_P(OwnModelRun, ResumesBitForBit) {
  const std::vector<std::string> method = exchanging(GetParam());
  const TrainingResult whole = train(recipe("whole", method));
  std::atomic<bool> stop = false;
  TrainingOptions options;
  options.stop = &stop;
  options.on_step = [&](const events::StepEvent& step) { stop = step.step >= 13; };
  const TrainingResult part = train(recipe("parts", method), options);
  EXPECT_FALSE(part.finished);
  EXPECT_LT(part.steps, kSteps);
  EXPECT_EQ(train(recipe("parts", method)).digest, whole.digest);
}

// serve_run, join_run and ask_run_status (thinwire/serving.h, joining.h, run_status.h) in one
// process.
TEST_F(OwnModelCase, IsServedAndJoinedThroughAMailbox) {
  const std::vector<std::string> method = {"sync.method=distro", "sync.timeout_s=60"};
  std::filesystem::create_directory(folder_ / "mailbox");
  std::promise<std::pair<std::string, std::string>> ready;
  ServingOptions serving;
  serving.mailbox = folder_ / "mailbox";
  serving.on_ready = [&](const std::string& address, const std::string& token) {
    ready.set_value({address, token});
  };
  std::vector<std::string> told;
  serving.on_message = [&](std::string_view line) { told.emplace_back(line); };
  auto served = std::async(std::launch::async, [&] {
    try {
      return serve_run(recipe("served", method), serving);
    } catch (const Error&) {
      ready.set_exception(std::current_exception());
      throw;
    }
  });
  const auto [address, token] = ready.get_future().get();
  const RunStatus before = ask_run_status(address, token);
  EXPECT_EQ(before.method, "distro");
  EXPECT_EQ(before.steps, kSteps);
  EXPECT_FALSE(before.finished);
  EXPECT_TRUE(before.members.empty());
  std::vector<std::future<JoiningResult>> members;
  for (const char* name : {"a", "b"}) {
    JoiningOptions joining;
    joining.address = address;
    joining.token = token;
    joining.folder = folder_ / name;
    joining.own_model = &model_;
    members.push_back(std::async(std::launch::async, [joining] { return join_run(joining); }));
  }
  const std::string digest = train(recipe("alone", method)).digest;
  for (auto& member : members) EXPECT_EQ(member.get().digest, digest);
  const ServingResult result = served.get();
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.digest, digest);
  EXPECT_EQ(result.folder, folder_ / "served");
  EXPECT_THAT(told, testing::Contains(testing::HasSubstr("members join with")));
}

INSTANTIATE_TEST_SUITE_P(Methods, OwnModelRun, testing::ValuesIn(method_names()),
                         [](const auto& method) { return method.param; });

TEST_F(OwnModelCase, GradientsTensorByTensorGiveTheSameBits) {
  const std::vector<std::string> unclipped = {"sync.method=allreduce", "optim.clip=0"};
  std::vector<std::string> layer = unclipped;
  layer.emplace_back("train.update=layer");
  EXPECT_EQ(train(recipe("step", unclipped)).digest, train(recipe("layer", layer)).digest);
}

TEST_F(OwnModelCase, BeginsWithTheProgramsWeights) {
  model_.initial = [](const std::vector<OwnTensor>& weights) {
    weights[0].values[0] = 3;
    weights[0].values[1] = -1;
    weights[1].values[0] = 2;
  };
  TrainingOptions options;
  double first = 1;
  options.on_step = [&](const events::StepEvent& step) {
    if (step.step == 1) first = step.loss;
  };
  train(recipe("run"), options);
  EXPECT_LT(first, 1e-10);
}

TEST_F(OwnModelCase, IsForTheTensorsThatItNames) {
  const Recipe given = recipe("run");
  model_.tensors = {"other 16x4"};
  try {
    train(given);
    FAIL() << "a run with other tensors was begun";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(
        error.what(),
        testing::HasSubstr("tensor 1 the run says \"slope 1x2\" and the model \"other 16x4\""));
  }
  model_.tensors = {"slope 1x2 head", "offset 1"};
  EXPECT_TRUE(train(given).finished) << "roles are the recipe's business";
}

TEST_F(OwnModelCase, UsesTheProgramsMemory) {
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::mutex mutex;
  std::vector<std::unique_ptr<float, Free>> blocks;
  model_.memory = [&](int64_t values) {
    const std::lock_guard lock(mutex);
    auto* block =
        static_cast<float*>(std::aligned_alloc(64, static_cast<size_t>(values + 15) / 16 * 64));
    blocks.emplace_back(block);
    return std::span(block, static_cast<size_t>(values));
  };
  train(recipe("run"));
  ASSERT_EQ(blocks.size(), 2);
  for (const auto& block : blocks) EXPECT_GT(block.get()[0], 1) << "on the way to 3";
  EXPECT_EQ(blocks[0].get()[0], blocks[1].get()[0]);

  model_.memory = [&](int64_t) { return std::span(blocks[0].get() + 1, 32); };
  EXPECT_THROW(train(recipe("other")), std::runtime_error);
}

TEST_F(OwnModelCase, RefusesWhatItCannotHave) {
  const auto refused = [&](const std::string& override) {
    try {
      recipe("run", {override});
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused("train.sequence=8"), testing::HasSubstr("needs [train] sequence = 1"));
  EXPECT_THAT(refused("data.records=chats"), testing::HasSubstr("rows that only the program"));
  EXPECT_THAT(refused("external.tensors=[\"slope 1y2\"]"), testing::HasSubstr("1y2 is no shape"));
  EXPECT_THAT(refused("external.tensors=[\"slope 2\", \"slope 3\"]"),
              testing::HasSubstr("two of the name slope"));
  const auto failure = [](const auto& training) {
    try {
      training();
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(failure([&] { train_model(recipe("run")); }),
              testing::HasSubstr("the program which has it"));
  EXPECT_THAT(failure([&] { train(Recipe("", {"run.dir=" + folder_.string()})); }),
              testing::HasSubstr("architecture must be \"external\""));
  model_.worker = nullptr;
  EXPECT_THAT(failure([&] { train(recipe("run")); }), testing::HasSubstr("OwnModel::worker"));
}

TEST_F(OwnModelCase, AnExceptionEndsTheRun) {
  model_.worker = [](const auto&, const auto&) -> OwnModel::Loss {
    return [](std::span<const uint64_t>) -> double { throw std::runtime_error("no such row"); };
  };
  EXPECT_THROW(
      {
        try {
          train(recipe("run"));
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "no such row");
          throw;
        }
      },
      std::runtime_error);
}

}  // namespace
}  // namespace thinwire
