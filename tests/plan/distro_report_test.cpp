#include "thinwire/plan/distro_report.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::plan {
namespace {

TEST(DistroReport, ReproducesItsTable3AndSection31) {
  const DistroCost cost = distro_cost({});
  EXPECT_DOUBLE_EQ(cost.all_reduce_bytes, 74.4e9);
  EXPECT_DOUBLE_EQ(cost.received_bytes, 86.8e6);
  EXPECT_DOUBLE_EQ(cost.sent_bytes, 2.8e6);
  EXPECT_NEAR(cost.ratio, 857, 0.5);
  EXPECT_NEAR(cost.seconds_down, 6.94, 0.005);
  EXPECT_NEAR(cost.seconds_up, 2.24, 0.005);
}

TEST(DistroReport, AgainstARingTheSameBytesAre54Times) {
  const DistroCost cost = distro_cost({});
  EXPECT_NEAR(cost.ratio_ring, 53.6, 0.05);
  EXPECT_NEAR(cost.ratio_ring_sent, 31 * cost.ratio_ring, 1e-6);
}

TEST(DistroReport, PeersUploadToEachOther) {
  DistroCase setting;
  setting.topology = "peers";
  EXPECT_EQ(distro_cost(setting).sent_bytes, 31 * 2.8e6);
  EXPECT_NEAR(distro_cost(setting).seconds_up, 69.4, 0.05);
}

TEST(DistroReport, SixOneBitValuesATileMakeItsPayload) {
  const auto tensors = method::tensors_of(report_model());
  EXPECT_NEAR(method::parameter_count(tensors) / 1e9, 1.2049, 1e-4);
  method::DistroOptions options;
  options.k = 6;
  const DistroPayload payload = distro_payload(options, tensors);
  EXPECT_NEAR(payload.bound_bytes / 2.8e6, 1, 0.1);
  EXPECT_LT(payload.entropy_bytes, payload.bound_bytes);
}

TEST(DistroReport, PayloadIsWhatTheMethodPredicts) {
  const auto recipe = method::load_recipe("", std::vector<std::string>{"model.vocab=512"});
  const auto tensors = method::tensors_of(recipe);
  const auto& options = recipe.section<method::DistroOptions>("distro");
  EXPECT_EQ(distro_payload(options, tensors).bound_bytes,
            method::find_method("distro").traffic(recipe, tensors, 4).sent_bytes);
}

TEST(DistroReport, ConstantBytesLetTheRatioGrowTenfold) {
  const auto curve = constant_bytes_curve({});
  EXPECT_NEAR(curve.front().ratio, 857, 0.5);
  EXPECT_NEAR(curve.back().parameters, 12e9, 1);
  EXPECT_NEAR(curve.back().ratio / curve.front().ratio, 10, 1e-9);
}

TEST(DistroReport, RefusesWhatHasNoMeaning) {
  EXPECT_THROW(distro_cost({.members = 1}), UsageError);
  EXPECT_THROW(distro_cost({.payload_bytes = 0}), UsageError);
  EXPECT_THROW(distro_cost({.topology = "star"}), UsageError);
}

}  // namespace
}  // namespace thinwire::plan
