#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "thinwire/base/wire.h"
#include "thinwire/codec/wire.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"
#include "thinwire/serve/payload_filter.h"

namespace thinwire::serve {
namespace {

using testing::HasSubstr;

constexpr uint64_t kRun = 7;
constexpr uint64_t kSeed = 1;

class Payloads : public testing::Test {
 protected:
  // A payload in which every value is `value`, as long as the operation of round 3 allows.
  Bytes payload_of(float value) const {
    const std::vector<float> values(plan_.round(3).operations.front().max_bytes / sizeof(float),
                                    value);
    Bytes payload(wire_bytes(WireType::kF32, values.size()));
    codec::wire_codec(WireType::kF32).encode(values, payload);
    return payload;
  }
  static membership::Offer offer(uint32_t fragment = 0) { return {1, 3, 0, fragment, {}, 0, {}}; }

  const config::Recipe recipe_ = method::load_recipe(
      "",
      std::vector<std::string>{"train.steps=10", "train.batch=6", "train.workers=2",
                               "model.vocab=64", "sync.method=allreduce", "allreduce.wire=fp32"});
  const membership::RecipePlan plan_{recipe_, method::tensors_of(recipe_)};
  const PayloadCheck check_ = payload_check(recipe_, plan_, kRun, kSeed);
};

TEST_F(Payloads, NormsOfMembersWithMoreAndFewerRowsCompare) {
  const auto two = check_(offer(), 2, payload_of(2));
  const auto six = check_(offer(), 6, payload_of(6));
  ASSERT_TRUE(two && *two && six && *six);
  EXPECT_NEAR((*two)->norm, (*six)->norm, 1e-9 * (*two)->norm);
  EXPECT_NE((*two)->values, (*six)->values);
  const double values = static_cast<double>(payload_of(0).size()) / sizeof(float);
  EXPECT_NEAR((*two)->norm, std::sqrt(values), 1e-6 * std::sqrt(values));
}

TEST_F(Payloads, WhoeverContributesNothingSendsNothing) {
  const auto nothing = check_(offer(), 2, {});
  ASSERT_TRUE(nothing);
  EXPECT_FALSE(*nothing);
}

TEST_F(Payloads, WhatCannotBeAppliedIsAFailureThatSaysWhy) {
  const auto why = [&](const membership::Offer& offer, const Bytes& payload) {
    const auto found = check_(offer, 2, payload);
    return found ? "" : found.error().message;
  };
  EXPECT_THAT(why(offer(), payload_of(NAN)), HasSubstr("not finite"));
  EXPECT_THAT(why(offer(), Bytes(8)), HasSubstr("8 bytes"));
  EXPECT_THAT(why(offer(5), payload_of(1)), HasSubstr("no such operation"));
}

}  // namespace
}  // namespace thinwire::serve
