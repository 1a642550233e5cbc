#include "thinwire/sync/allreduce.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "replicas.h"
#include "tests/paths.h"
#include "thinwire/base/rng.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/registry.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::sync {
namespace {

constexpr int kWorkers = 3;

config::Recipe recipe_with(std::vector<std::string> overrides) {
  overrides.push_back("sync.method=allreduce");
  return config::parse_recipe("", "test", overrides, method::method_sections());
}

std::vector<TensorSpec> golden_specs() {
  return {{"embed", {12, 8}, TensorRole::kEmbedding},
          {"w", {7, 10}, TensorRole::kMatrix},
          {"norm", {10}, TensorRole::kNorm}};
}

// Steps of an optimizer on the token-weighted mean of three workers' gradients, clipped.
void expect_follows(const std::string& file, const std::string& method,
                    const std::vector<TensorSpec>& tensors) {
  const tensor::SafetensorsReader golden(tests::source_file(fmt::format("tests/golden/{}", file)));
  Replicas replicas(recipe_with({"allreduce.wire=fp32", "optim.method=" + method}), tensors,
                    kWorkers);
  const auto specs = replicas.layout().specs();
  for (int worker = 0; worker < kWorkers; ++worker) {
    for (size_t t = 0; t < specs.size(); ++t) {
      golden.read_f32("param." + specs[t].name, replicas.params(worker).tensor(t));
    }
  }
  const std::vector<float> lr = golden.read_f32("lr");
  const std::vector<float> norm = golden.read_f32("norm");
  for (size_t step = 0; step < lr.size(); ++step) {
    const auto tokens = golden.read_integers(fmt::format("tokens.{}", step));
    const auto all = static_cast<double>(tokens[0] + tokens[1] + tokens[2]);
    std::vector<float> weights;
    for (const int64_t count : tokens) weights.push_back(float(double(count) / all));
    const auto reports = replicas.step(
        step, lr[step],
        [&](int worker, tensor::Arena& gradients) {
          for (size_t t = 0; t < specs.size(); ++t) {
            golden.read_f32(fmt::format("grad.{}.{}.{}", step, worker, specs[t].name),
                            gradients.tensor(t));
          }
        },
        weights);
    for (int worker = 0; worker < kWorkers; ++worker) {
      ASSERT_TRUE(reports[size_t(worker)].has_value());
      EXPECT_NEAR(reports[size_t(worker)]->gradient_norm, norm[step], 1e-6);
      for (size_t t = 0; t < specs.size(); ++t) {
        const auto expected = golden.read_f32(fmt::format("after.{}.{}", step + 1, specs[t].name));
        const auto got = replicas.params(worker).tensor(t);
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], 1e-6) << specs[t].name << " step " << step;
        }
      }
    }
  }
}

// tests/golden/make_adamw.py
TEST(AllReduce, FollowsTheIndependentReference) {
  expect_follows("adamw.safetensors", "adamw", golden_specs());
}

// tests/golden/make_muon.py
TEST(AllReduce, FollowsTheIndependentReferenceOfMuon) {
  expect_follows("muon.safetensors", "muon",
                 {{"embed", {12, 8}, TensorRole::kEmbedding},
                  {"wide", {7, 11}, TensorRole::kMatrix},
                  {"tall", {13, 5}, TensorRole::kMatrix},
                  {"square", {8, 8}, TensorRole::kMatrix},
                  {"norm", {11}, TensorRole::kNorm},
                  {"head", {12, 8}, TensorRole::kHead}});
}

void random_gradients(int worker, uint64_t step, tensor::Arena& gradients) {
  Rng rng(uint64_t(worker) + 1, step);
  for (size_t t = 0; t < gradients.layout().size(); ++t) {
    for (float& value : gradients.tensor(t)) value = float(rng.normal());
  }
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
