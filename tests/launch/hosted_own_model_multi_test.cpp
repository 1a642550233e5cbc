// Members of a run on many hosts that compute with a model of their program's own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/errors.h"
#include "tests/launch/hosted_case.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

constexpr int64_t kSteps = 42;

// Learns a linear map. With very few weights, what members send in two bits each may be the same,
// and the coordinator would take it for a copy.
constexpr size_t kInputs = 32;
constexpr size_t kOutputs = 16;

train::OwnLoss linear(const train::OwnWorker& worker) {
  return [&weights = worker.weights,
          &gradients = worker.gradients](const train::OwnStep& step) -> train::OwnAnswer {
    const std::span<const uint64_t> rows = step.rows;
    const std::span<float> map = weights.tensor(0), slope = gradients.tensor(0);
    double sum = 0;
    for (const uint64_t row : rows) {
      float x[kInputs];
      for (size_t i = 0; i < kInputs; ++i)
        x[i] = static_cast<float>(row * (2 * i + 3) % 11) / 11 - 0.5F;
      for (size_t o = 0; o < kOutputs; ++o) {
        float error = weights.tensor(1)[o] - x[o];
        for (size_t i = 0; i < kInputs; ++i) error += map[o * kInputs + i] * x[i];
        sum += error * error;
        const float scale = 2 * error / static_cast<float>(rows.size());
        for (size_t i = 0; i < kInputs; ++i) slope[o * kInputs + i] += scale * x[i];
        gradients.tensor(1)[o] += scale;
      }
    }
    return {sum / static_cast<double>(rows.size())};
  };
}

class HostedOwnModel : public HostedCase {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    ASSERT_TRUE(
        prepare(kSteps, kPatient, 2,
                {"model.architecture=external", "external.tensors=[\"map 16x32\", \"offset 16\"]",
                 "train.sequence=1", "train.batch=16", "optim.lr=0.01", "optim.weight_decay=0"}))
        << why_not_;
  }

  const train::OwnModel model_{.worker = linear};
};

TEST_P(HostedOwnModel, GivesTheBitsOfARunInOneProcess) {
  const TrainResult expected = train(recipe_, {.own_model = &model_});
  HostedRun run(recipe_, folder_, options_);
  run.bring(model_);
  for (const int number : {0, 1}) run.start(number);
  for (const int number : {0, 1}) {
    const member::MemberResult result = run.wait(number);
    EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished) << result.why;
    EXPECT_EQ(to_hex(result.digest), expected.summary.digest) << "member " << number;
  }
}

TEST_P(HostedOwnModel, MembersThatJoinOrReturnAgree) {
  HostedRun run(recipe_, folder_, options_);
  run.bring(model_);
  run.hold_at(20);
  for (const int number : {0, 1}) run.start(number);
  run.wait_until(begun());
  run.start(2);
  run.wait_until(has_members(3));
  run.kill(1);
  run.start(1);
  run.release();
  expect_agreement(run, {0, 1, 2});
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedOwnModel,
                         testing::ValuesIn(variants_named(
                             {"allreduce", "distro", "distro_overlap", "diloco", "diloco_eager",
                              "diloco_int2", "sparseloco", "streaming_slices_inner"})),
                         [](const auto& test) { return test.param.name; });

class HostedOwnModelRefusals : public testing::Test {};

TEST_F(HostedOwnModelRefusals, NameWhatIsMissing) {
  const fs::path folder = test_folder();
  const config::Recipe recipe = tiny_recipe(
      folder,
      {"model.architecture=external", "external.tensors=[\"map 16x32\"]", "train.sequence=1"});
  HostedRun run(recipe, folder, membership::options_of(recipe.sync));
  run.start(0);
  EXPECT_THAT(tests::error_of([&] { run.wait(0); }),
              testing::HasSubstr("the run's model is external, and only the program which has it"));
  const train::OwnModel model{.worker = linear};
  run.bring(model);
  run.start_auditor(1);
  EXPECT_THAT(tests::error_of([&] { run.wait(1); }),
              testing::HasSubstr("[model] architecture must be one that thinwire computes for "
                                 "audits, got \"external\""));
}

}  // namespace
}  // namespace thinwire::launch
