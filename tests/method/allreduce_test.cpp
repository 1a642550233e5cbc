#include <gtest/gtest.h>

#include <set>

#include "tests/paths.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"

namespace thinwire::method {
namespace {

const std::vector<TensorSpec> kTensors = {{"a", {3, 7}}, {"b", {5}}, {"c", {16}}};

config::Recipe recipe_with(const std::string& wire) {
  return load_recipe("", std::vector<std::string>{"allreduce.wire=" + wire});
}

// What the members send when each owns elements [n i / m, n (i + 1) / m).
double mean_sent_elements(int64_t elements, int64_t members) {
  int64_t sent = 0;
  for (int64_t member = 0; member < members; ++member) {
    const int64_t own = elements * (member + 1) / members - elements * member / members;
    sent += elements - own + (members - 1) * own;
  }
  return static_cast<double>(sent) / static_cast<double>(members);
}

TEST(AllReduceTraffic, IsWhatTheMembersSendOnAverage) {
  EXPECT_EQ(arena_elements(kTensors), 32 + 16 + 16);
  for (const int members : {1, 2, 3, 4, 7}) {
    const Traffic traffic = kAllReduce.traffic(recipe_with("fp32"), kTensors, members);
    EXPECT_DOUBLE_EQ(traffic.sent_bytes, 4 * mean_sent_elements(64, members)) << members;
    EXPECT_EQ(traffic.received_bytes, traffic.sent_bytes);
    EXPECT_TRUE(traffic.exact);
    EXPECT_EQ(traffic.round_trips, members > 1 ? 2 : 0);
  }
}

TEST(AllReduceTraffic, HalvesInBf16AndEqualsTheRing) {
  const double sent = kAllReduce.traffic(recipe_with("bf16"), kTensors, 4).sent_bytes;
  EXPECT_EQ(sent, kAllReduce.traffic(recipe_with("fp32"), kTensors, 4).sent_bytes / 2);
  EXPECT_EQ(sent, ring_bytes(64, 4));
}

// The projections of 1.34 billion parameters, at rank 512.
TEST(AllReduceTraffic, OfProjectedGradientsIsAThirdOfThatOfWholeOnes) {
  const auto sent = [](std::vector<std::string> fields) {
    fields.insert(fields.end(), {"optim.method=galore", "galore.rank=512", "train.workers=4"});
    const config::Recipe recipe = load_recipe(tests::source_file("recipes/galore-1b.toml"), fields);
    return kAllReduce.traffic(recipe, tensors_of(recipe), 4);
  };
  const Traffic whole = sent({}), projected = sent({"optim.gradients=projected"});
  EXPECT_LT(projected.sent_bytes, 0.35 * whole.sent_bytes);
  EXPECT_LT(projected.received_bytes, 0.35 * whole.received_bytes);
  // Each of 168 matrices is renewed every 200 steps, with two sums that wait for each other.
  EXPECT_NEAR(projected.round_trips, 2 + 2 * 2 * 168 / 200.0, 0.1);
  // Seeded ones take none.
  EXPECT_EQ(sent({"optim.gradients=projected", "galore.basis=seeded"}).round_trips, 2);
}

TEST(AllReduceTraffic, OfAStepsOperationsIsThatOfTheRun) {
  const std::vector<std::string> fields = {"optim.method=galore", "galore.rank=8",
                                           "galore.refresh=3",    "train.workers=2",
                                           "model.vocab=258",     "optim.gradients=projected",
                                           "train.steps=10"};
  const config::Recipe recipe = load_recipe({}, fields);
  const auto tensors = tensors_of(recipe);
  double bytes = 0;
  for (int64_t step = 0; step < 10; ++step) {
    std::set<uint32_t> fragments;
    for (const Operation& one : operations_of(recipe, tensors)(step)) {
      bytes += static_cast<double>(one.bytes);
      EXPECT_TRUE(fragments.insert(one.fragment).second);
    }
  }
  EXPECT_DOUBLE_EQ(kAllReduce.traffic(recipe, tensors, 2).sent_bytes, bytes / 10);
}

TEST(AllReduceState, IsTwoMomentsEveryReplicaAgreesOn) {
  const StateBytes state = kAllReduce.state(recipe_with("bf16"), kTensors);
  EXPECT_EQ(state.consensus, 64 * 8);
  EXPECT_EQ(state.local, 0);
}

}  // namespace
}  // namespace thinwire::method
