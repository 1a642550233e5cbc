#include <gtest/gtest.h>

#include <algorithm>

#include "replicas.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/registry.h"
#include "thinwire/sync/algorithm.h"

namespace thinwire::sync {
namespace {

config::Recipe recipe_with(std::vector<std::string> overrides) {
  overrides.push_back("sync.method=allreduce");
  return config::parse_recipe("", "test", overrides, method::method_sections());
}

std::vector<TensorSpec> golden_specs() {
  return {{"embed", {12, 8}, TensorRole::kEmbedding},
          {"w", {7, 10}, TensorRole::kMatrix},
          {"norm", {10}, TensorRole::kNorm}};
}

TEST(AllReduce, ReplicasAgreeBitForBitWithRoundedWires) {
  Replicas replicas(recipe_with({"allreduce.wire=bf16"}), golden_specs(), 4);
  for (uint64_t step = 0; step < 10; ++step) {
    replicas.step(step, 1e-2f,
                  [&](int worker, tensor::Arena& out) { random_gradients(worker, step, out); });
    for (int worker = 1; worker < 4; ++worker) {
      ASSERT_TRUE(std::ranges::equal(replicas.params(0).all(), replicas.params(worker).all()));
    }
  }
}

TEST(AllReduce, BytesSentAreTheBytesPredicted) {
  const config::Recipe recipe = recipe_with({"allreduce.wire=bf16"});
  const auto specs = golden_specs();
  Replicas replicas(recipe, specs, 3);
  replicas.step(0, 1e-2f, [](int worker, tensor::Arena& out) { random_gradients(worker, 0, out); });
  double sent = 0;
  for (int worker = 0; worker < 3; ++worker)
    sent += double(replicas.communicator(worker).traffic().sent);
  const auto predicted = method::find_method("allreduce").traffic(recipe, specs, 3);
  EXPECT_TRUE(predicted.exact);
  EXPECT_DOUBLE_EQ(sent / 3, predicted.sent_bytes);
}

TEST(AllReduce, LostWorkerIsAnErrorNotAHang) {
  Replicas replicas(recipe_with({}), golden_specs(), 2);
  replicas.communicator(1).leave();
  const auto reports = replicas.step(
      0, 1e-2f, [](int worker, tensor::Arena& out) { random_gradients(worker, 0, out); });
  ASSERT_FALSE(reports[0].has_value());
  EXPECT_EQ(reports[0].error().kind, FailureKind::kLostPeer);
}

}  // namespace
}  // namespace thinwire::sync
