#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/distro/distro_spec.h"

namespace thinwire::method {
namespace {

config::Recipe recipe_with(const std::string& fields) {
  return config::parse_recipe("[distro]\n" + fields, "test", {}, method_sections());
}

TEST(Tiles, SideIsTheLargestDivisorUpToTheChunk) {
  EXPECT_EQ(tile_side(128, 64), 64);
  EXPECT_EQ(tile_side(1376, 64), 43);
  EXPECT_EQ(tile_side(37, 16), 1);
  EXPECT_EQ(tile_side(5, 16), 5);
}

TEST(Tiles, KeepTheirShareRoundedHalfUpAndAtLeastOne) {
  EXPECT_EQ(kept_of_tile(4096, {64, 32, false}), 32);
  EXPECT_EQ(kept_of_tile(80, {16, 8, false}), 3);  // 2.5
  EXPECT_EQ(kept_of_tile(1, {64, 32, false}), 1);
  EXPECT_EQ(kept_of_tile(80, {16, 8, true}), 8);
  EXPECT_EQ(kept_of_tile(5, {16, 8, true}), 5);
}

TEST(Tiles, PlanCoversEveryTensor) {
  const std::vector<TensorSpec> tensors = {
      {"matrix", {512, 1376}}, {"norm", {512}}, {"box", {3, 4, 5}}};
  const TilePlan plan = plan_tiles(tensors, {});
  EXPECT_EQ(plan.tensors[0].tiles(), 8 * 32);
  EXPECT_EQ(plan.tensors[0].kept, 22);  // 64 * 43 of 4096 slots: 21.5
  EXPECT_EQ(plan.tensors[1].tiles(), 8);
  EXPECT_EQ(plan.tensors[1].tile_rows, 1);
  EXPECT_EQ(plan.tensors[2].rows, 12);
  EXPECT_EQ(plan.tensors[2].slots(), 60);
  EXPECT_EQ(plan.tiles, 8 * 32 + 8 + 1);
  EXPECT_EQ(plan.tensors[2].first_kept, 8 * 32 * 22 + 8);
}

TEST(Distro, PayloadOfTheFiftyMillionModelIsHundredsOfTimesSmallerThanItsGradient) {
  method::ModelSpec model;
  model.vocab = 32000;
  model.hidden = 512;
  model.layers = 6;
  model.heads = 8;
  model.options<method::LlamaOptions>().intermediate = 1376;
  const auto tensors = method::tensors_of(model);
  EXPECT_NEAR(static_cast<double>(method::parameter_count(tensors)), 51.7e6, 0.1e6);
  const TilePlan plan = plan_tiles(tensors, {});
  const double entropy = distro_entropy_bits(plan, 1) / 8;
  const auto bound = static_cast<double>(distro_payload_bound(plan, 1));
  EXPECT_NEAR(entropy, 0.47e6, 0.01e6);
  EXPECT_GT(bound, entropy);
  EXPECT_LT(bound, 1.08 * entropy);
}

TEST(Distro, TrafficCountsThePayloadOnceAndThoseOfAllOthers) {
  const auto recipe = recipe_with("k = 4\n");
  const std::vector<TensorSpec> tensors = {{"matrix", {256, 256}}};
  const Traffic traffic = kDistro.traffic(recipe, tensors, 5);
  const auto payload =
      static_cast<double>(distro_payload_bound(plan_tiles(tensors, {64, 4, false}), 1));
  EXPECT_EQ(traffic.sent_bytes, payload);
  EXPECT_EQ(traffic.received_bytes, 4 * payload);
  EXPECT_EQ(traffic.round_trips, 1);
  EXPECT_FALSE(traffic.exact);
  EXPECT_EQ(kDistro.traffic(recipe, tensors, 1).sent_bytes, 0);
}

TEST(Distro, StateIsTheMomentumAndAdamWsMoments) {
  const std::vector<TensorSpec> tensors = {{"matrix", {32, 32}}};
  EXPECT_EQ(kDistro.state(recipe_with(""), tensors).local, 4096);
  EXPECT_EQ(kDistro.state(recipe_with(""), tensors).consensus, 0);
  EXPECT_EQ(kDistro.state(recipe_with("update = \"adamw\"\n"), tensors).consensus, 8192);
}

// Momentum and payload, moments and basis are those of the gradient's projection.
TEST(Distro, HoldsAndSendsNoMoreThanProjectionsWithGalore) {
  const config::Recipe recipe = load_recipe(
      {}, std::vector<std::string>{"sync.method=distro", "distro.update=adamw", "distro.k=4",
                                   "optim.method=galore", "galore.rank=16", "galore.basis=seeded",
                                   "optim.gradients=projected"});
  const std::vector<TensorSpec> tensors = {{"matrix", {64, 256}, TensorRole::kMatrix, 0},
                                           {"norm", {64}, TensorRole::kNorm, 0}};
  const std::vector<TensorSpec> projected = {{"matrix", {16, 256}}, {"norm", {64}}};
  const auto payload =
      static_cast<double>(distro_payload_bound(plan_tiles(projected, {64, 4, false}), 1));
  EXPECT_EQ(kDistro.traffic(recipe, tensors, 3).sent_bytes, payload);
  EXPECT_EQ(kDistro.operations(recipe, tensors, RunKind::kJob)(0)[0].bytes, payload);
  EXPECT_EQ(kDistro.state(recipe, tensors).local, 4 * (16 * 256 + 64));
  EXPECT_EQ(kDistro.state(recipe, tensors).consensus, 4 * (2 * 16 * 256 + 16 * 64 + 2 * 64));
}

struct Contradiction {
  const char* fields;
  const char* message;
};

class Contradictions : public testing::TestWithParam<Contradiction> {};
INSTANTIATE_TEST_SUITE_P(
    Distro, Contradictions,
    testing::Values(
        Contradiction{"chunk = 4\nk = 17\n", "k must be <= chunk * chunk = 16, got 17"},
        Contradiction{"sum_k = 40\n", "sum_k = 40 needs a sum_wire other than \"same\""},
        Contradiction{"sum_wire = \"int8\"\nsum_k = 31\n", "sum_k must be 0 or at least k = 32"},
        Contradiction{"sum_wire = \"int8\"\n[sync]\naggregate = \"trimmed_mean\"\n",
                      "sum_wire = \"int8\" needs sync.aggregate = \"mean\", got \"trimmed_mean\": "
                      "that rule judges contributions one by one"},
        Contradiction{"values = \"fp32\"\nfeedback = true\n", "feedback = true needs values"},
        Contradiction{"client = \"stateless\"\nfeedback = true\n",
                      "feedback = true needs client = stateful"},
        Contradiction{"client = \"stateless\"\noverlap = 1\nlook_ahead = true\n",
                      "look_ahead = true needs client = stateful"},
        Contradiction{"look_ahead = true\n", "look_ahead = true needs overlap = 1"},
        Contradiction{"local_steps = 2\n", "local_steps must be 1 with client = stateful"},
        Contradiction{"local_update = \"sign\"\n", "local_update = sign needs client = stateless"},
        Contradiction{"client = \"stateless\"\nlocal_steps = 9\n[train]\nsteps = 8\n",
                      "local_steps must be <= train.steps = 8, got 9"},
        Contradiction{"update = \"adamw\"\n[optim]\nmethod = \"muon\"\n",
                      "update = \"adamw\" needs optim.method = \"adamw\", or \"galore\" with "
                      "galore.basis = \"seeded\", got \"muon\""},
        Contradiction{"client = \"stateless\"\nlocal_update = \"adamw\"\n"
                      "[optim]\nmethod = \"muon\"\n",
                      "local_update = \"adamw\" needs optim.method = \"adamw\""}));

TEST_P(Contradictions, AreErrorsThatNameTheField) {
  const auto recipe = recipe_with(GetParam().fields);
  try {
    kDistro.check(recipe);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
  }
}

TEST(Distro, FieldsOutOfRangeAreRefused) {
  EXPECT_THROW(recipe_with("chunk = 257\n"), UsageError);
  EXPECT_THROW(recipe_with("values = \"int4\"\n"), UsageError);
  EXPECT_THROW(recipe_with("decay = 1.5\n"), UsageError);
}

}  // namespace
}  // namespace thinwire::method
