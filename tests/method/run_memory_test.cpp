#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::HasSubstr;

config::Recipe recipe(std::vector<std::string> fields) {
  fields.insert(fields.begin(), "model.vocab=512");
  return load_recipe({}, fields);
}

MemoryNeed need(const std::vector<std::string>& fields, int64_t workers_here = 1) {
  return run_memory(recipe(fields), workers_here);
}

double part(const MemoryNeed& need, std::string_view name) {
  for (const MemoryPart& one : need.parts) {
    if (one.name == name) return one.bytes;
  }
  return -1;
}

TEST(RunMemory, IsThatOfEveryWorkerInTheProcess) {
  const MemoryNeed one = need({"train.workers=4"}, 1);
  const MemoryNeed all = need({"train.workers=4"}, 4);
  // They share the transport's sum and the program's code.
  const double sum = part(one, "sums");
  EXPECT_EQ(sum, part(one, "gradients"));
  EXPECT_EQ(part(all, "sums"), sum);
  const double code = part(one, "code of the step");
  EXPECT_EQ(part(all, "code of the step"), code);
  EXPECT_GT(part(need({"train.workers=4", "train.precision=bf16"}, 1), "code of the step"), code);
  EXPECT_DOUBLE_EQ(all.total() - sum - code, 4 * (one.total() - sum - code));
  EXPECT_EQ(part(one, "weights"), part(one, "gradients"));
  EXPECT_EQ(part(one, "optimizer and method"), 2 * part(one, "weights"));
  EXPECT_THAT(all.describe(), HasSubstr("this run with 4 workers needs"));
  EXPECT_THAT(all.advice, HasSubstr("train.workers = 4"));
}

TEST(RunMemory, CountsTheSumsThatAreFormedAtOnce) {
  const auto sums = [](const std::vector<std::string>& fields, int64_t workers_here = 1) {
    const MemoryNeed all = need(fields, workers_here);
    return part(all, "sums") / part(all, "weights") * static_cast<double>(workers_here);
  };
  EXPECT_EQ(sums({}), 0);  // one worker averages nothing
  EXPECT_EQ(sums({"sync.method=diloco"}), 1);
  EXPECT_EQ(sums({"sync.method=diloco", "diloco.overlap=delayed"}), 2);
  EXPECT_EQ(sums({"sync.method=sparseloco"}), 0);
  EXPECT_EQ(
      sums({"train.workers=4", "sync.method=diloco", "sync.within=allreduce", "sync.clusters=2"},
           4),
      3);
}

// Weights and two moments of AdamW, which all workers share; DiLoCo's workers have their own,
// beside the global weights and their momentum.
TEST(RunMemory, ACheckpointHoldsWeightsAndState) {
  const auto bytes = [](std::vector<std::string> fields) {
    fields.insert(fields.end(), {"model.vocab=512", "train.workers=4"});
    const config::Recipe recipe = load_recipe({}, fields);
    return checkpoint_bytes(recipe) / weight_bytes(tensors_of(recipe), WeightFormat::kF32);
  };
  EXPECT_DOUBLE_EQ(bytes({"sync.method=allreduce"}), 3);
  EXPECT_DOUBLE_EQ(bytes({"sync.method=diloco"}), 2 + 4 * 3);
}

TEST(RunMemory, NamesTheFieldThatAsksForMost) {
  const std::string wide = need({"model.hidden=1048576"}).advice;
  EXPECT_THAT(wide, testing::StartsWith("lower model.hidden = 1048576"));
  EXPECT_THAT(need({"train.batch=100000000"}).advice, HasSubstr("train.batch = 100000000"));
  EXPECT_THAT(need({"model.layers=10000"}).advice, HasSubstr("model.layers = 10000"));
}

TEST(RunMemory, OfADeviceIsItsOwn) {
  const MemoryNeed device = need({"train.device=cuda"});
  EXPECT_EQ(part(device, "activations"), 0);
  EXPECT_GT(part(device, "weights"), 0);
}

// No product of a recipe's largest values leaves the range of its integers.
TEST(RunMemory, OfTheLargestRecipeIsFinite) {
  for (const Method* method : all_methods()) {
    const config::Recipe largest = recipe(
        {"model.hidden=1048576", "model.layers=10000", "llama.intermediate=4194304",
         "model.vocab=16777216", "model.heads=65536", "train.batch=100000000",
         "train.sequence=16777216", "train.workers=4096", "train.threads=1024", "train.steps=1",
         "streaming.fragment_layers=10000", fmt::format("sync.method={}", method->name)});
    const auto tensors = method::tensors_of(largest);
    double exact = 0;
    for (const TensorSpec& tensor : tensors) {
      double count = 1;
      for (const int64_t side : tensor.shape) count *= static_cast<double>(side);
      exact += count;
    }
    EXPECT_NEAR(static_cast<double>(method::parameter_count(tensors)) / exact, 1, 1e-12);
    const StateBytes state = method->state(largest, tensors);
    EXPECT_TRUE(std::isfinite(state.consensus + state.local) && state.local >= 0) << method->name;
    const Traffic traffic = method->traffic(largest, tensors, 4096);
    const Traffic of_two = method->traffic(largest, tensors, 2);
    EXPECT_GT(traffic.sent_bytes, 0) << method->name;
    EXPECT_GE(traffic.received_bytes, of_two.received_bytes) << method->name;
    EXPECT_TRUE(std::isfinite(traffic.received_bytes)) << method->name;
    if (method != all_methods().front()) continue;
    const MemoryNeed need = run_memory(largest, 4096);
    for (const MemoryPart& one : need.parts) {
      EXPECT_TRUE(std::isfinite(one.bytes) && one.bytes >= 0) << one.name << " " << one.bytes;
    }
    EXPECT_THROW(check_memory(need, {1e12, 1e12}), UsageError);
  }
}

}  // namespace
}  // namespace thinwire::method
