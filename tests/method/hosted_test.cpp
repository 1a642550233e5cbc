#include <gtest/gtest.h>

#include "thinwire/method/method.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/allreduce/allreduce_spec.h"
#include "thinwire/methods/diloco/diloco_spec.h"
#include "thinwire/methods/distro/distro_spec.h"

namespace thinwire::method {
namespace {

const std::vector<TensorSpec> kTensors = {{"a", {3, 7}}, {"b", {5}}, {"c", {16}}};

Traffic hosted(const std::string& name, const std::vector<std::string>& overrides, int members) {
  const Method& method = find_method(name);
  const config::Recipe recipe = load_recipe("", overrides);
  return hosted_traffic(method.traffic(recipe, kTensors, members), recipe.sync.sums, members);
}

TEST(HostedTraffic, OfASumIsOneContributionUpAndTheOthersDown) {
  for (const int members : {2, 3, 8}) {
    const Traffic traffic = hosted("allreduce", {"allreduce.wire=fp32"}, members);
    EXPECT_DOUBLE_EQ(traffic.sent_bytes, 4 * 64);
    EXPECT_DOUBLE_EQ(traffic.received_bytes, 4 * 64 * (members - 1));
    EXPECT_EQ(traffic.round_trips, 1);
  }
}

TEST(HostedTraffic, OfASumEverySoManyStepsIsThatOfItsPieces) {
  const Traffic traffic =
      hosted("diloco", {"sync.method=diloco", "diloco.sync_every=10", "diloco.wire=fp32"}, 4);
  EXPECT_DOUBLE_EQ(traffic.sent_bytes, 4 * 64 / 10.0);
  EXPECT_DOUBLE_EQ(traffic.received_bytes, 3 * traffic.sent_bytes);
  ASSERT_EQ(traffic.pieces.size(), 1U);
  EXPECT_DOUBLE_EQ(traffic.pieces[0].sent_bytes, 4 * 64);
  EXPECT_DOUBLE_EQ(traffic.pieces[0].received_bytes, 3 * 4 * 64);
  EXPECT_EQ(traffic.pieces[0].round_trips, 1);
}

TEST(HostedTraffic, OfASumThatTheCoordinatorFormsIsOneContributionInEachDirection) {
  const std::vector<std::string> fields = {"sync.method=diloco", "diloco.sync_every=10",
                                           "diloco.wire=fp32", "sync.sums=coordinator"};
  for (const int members : {3, 8}) {
    const Traffic traffic = hosted("diloco", fields, members);
    EXPECT_DOUBLE_EQ(traffic.sent_bytes, 4 * 64 / 10.0);
    EXPECT_DOUBLE_EQ(traffic.received_bytes, 4 * 64 / 10.0);
    EXPECT_DOUBLE_EQ(traffic.pieces.at(0).received_bytes, 4 * 64);
  }
  EXPECT_DOUBLE_EQ(hosted("allreduce", {"sync.sums=coordinator"}, 4).received_bytes, 2 * 64);
  EXPECT_DOUBLE_EQ(hosted("diloco", fields, 2).received_bytes, 4 * 64 / 10.0);
}

// What a member receives does not grow with the members: 8 bits a value instead of one from each.
TEST(HostedTraffic, OfOneBitWithASumInAFormatOfItsOwn) {
  const std::vector<TensorSpec> tensors = {{"a", {256, 64}}};
  std::vector<std::string> fields = {"sync.method=diloco", "diloco.sync_every=10",
                                     "diloco.wire=int1", "sync.sums=coordinator"};
  const auto traffic = [&](int members) {
    const config::Recipe recipe = load_recipe("", fields);
    return hosted_traffic(find_method("diloco").traffic(recipe, tensors, members), recipe.sync.sums,
                          members);
  };
  const double contribution = 64 * (2 + 256 / 8) / 10.0;
  EXPECT_DOUBLE_EQ(traffic(8).received_bytes, 7 * contribution);
  EXPECT_DOUBLE_EQ(traffic(1000).received_bytes, 999 * contribution);
  fields.emplace_back("diloco.sum_wire=fp8");
  for (const int members : {8, 1000}) {
    EXPECT_DOUBLE_EQ(traffic(members).sent_bytes, contribution);
    EXPECT_DOUBLE_EQ(traffic(members).received_bytes, 64 * (2 + 256) / 10.0);
    EXPECT_DOUBLE_EQ(traffic(members).pieces.at(0).received_bytes, 64 * (2 + 256));
  }
}

TEST(HostedTraffic, ACoordinatorSumsWhereItSavesEnough) {
  EXPECT_TRUE(coordinator_sums(config::Sums::kAuto, 3, kMinSavedBytes, kMinSavedBytes));
  EXPECT_FALSE(coordinator_sums(config::Sums::kAuto, 3, kMinSavedBytes - 4, kMinSavedBytes - 4));
  EXPECT_TRUE(coordinator_sums(config::Sums::kAuto, 6, kMinSavedBytes / 4, kMinSavedBytes / 4));
  EXPECT_FALSE(coordinator_sums(config::Sums::kAuto, 6, kMinSavedBytes / 4, kMinSavedBytes));
  EXPECT_FALSE(coordinator_sums(config::Sums::kMembers, 8, 1e9, 1e9));
  EXPECT_FALSE(coordinator_sums(config::Sums::kCoordinator, 2, 1e9, 1e9));
}

TEST(HostedTraffic, OfGatheredPayloadsIsTheSame) {
  const Traffic before = kDistro.traffic(load_recipe("", {}), kTensors, 4);
  const Traffic traffic = hosted("distro", {}, 4);
  EXPECT_EQ(traffic.sent_bytes, before.sent_bytes);
  EXPECT_EQ(traffic.received_bytes, before.received_bytes);
  EXPECT_EQ(traffic.round_trips, before.round_trips);
}

// A mean of four times as many slots takes less than four payloads.
TEST(HostedTraffic, OfGatheredPayloadsWithAMeanOfTheirOwnIsThatMean) {
  for (const std::string method : {"distro", "sparseloco"}) {
    const std::vector<TensorSpec> tensors = {{"a", {64, 640}}};
    std::vector<std::string> fields = {"sync.method=" + method, "sync.sums=coordinator",
                                       method + ".k=16"};
    const auto traffic = [&](int members) {
      const config::Recipe recipe = load_recipe("", fields);
      return hosted_traffic(find_method(method).traffic(recipe, tensors, members), recipe.sync.sums,
                            members);
    };
    const double payload = traffic(8).sent_bytes;
    EXPECT_DOUBLE_EQ(traffic(8).received_bytes, 7 * payload) << method;
    EXPECT_DOUBLE_EQ(traffic(1000).received_bytes, 999 * payload) << method;
    fields.push_back(method + ".sum_wire=1bit");
    fields.push_back(method + ".sum_k=64");
    EXPECT_DOUBLE_EQ(traffic(8).sent_bytes, payload) << method;
    EXPECT_NEAR(traffic(8).received_bytes, traffic(1000).received_bytes, 1e-9) << method;
    EXPECT_LT(traffic(8).received_bytes, 4 * payload) << method;
    EXPECT_DOUBLE_EQ(traffic(2).received_bytes, payload) << method;
    fields[1] = "sync.sums=members";
    EXPECT_DOUBLE_EQ(traffic(8).received_bytes, 7 * payload) << method;
  }
}

TEST(HostedTraffic, OfOneMemberIsNothing) { EXPECT_EQ(hosted("allreduce", {}, 1).sent_bytes, 0); }

}  // namespace
}  // namespace thinwire::method
