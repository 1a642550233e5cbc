// The small types: tensor facts, results, time.
#include <gtest/gtest.h>

#include <ctime>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"
#include "thinwire/base/tensor_view.h"

namespace thinwire {
namespace {

TEST(TensorView, CountsElementsAndBytes) {
  TensorView view;
  view.shape = {3, 5};
  view.dtype = DType::kBf16;
  EXPECT_EQ(view.count(), 15);
  EXPECT_EQ(view.bytes(), 30);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({4, 0}), 0);
}

TEST(TensorSpec, EverythingDecaysButNorms) {
  EXPECT_FALSE((TensorSpec{"n", {4}, TensorRole::kNorm, 0}).decays());
  EXPECT_FALSE((TensorSpec{"b", {4}, TensorRole::kBias, 0}).decays());
  for (const TensorRole role : {TensorRole::kEmbedding, TensorRole::kMatrix, TensorRole::kHead}) {
    EXPECT_TRUE((TensorSpec{"w", {4, 4}, role, 0}).decays());
  }
}

TEST(Result, HoldsAValueOrAFailure) {
  const Result<int> good = 3;
  const Result<int> bad = fail(FailureKind::kDeadline, "too late");
  EXPECT_EQ(good.value(), 3);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().kind, FailureKind::kDeadline);
  EXPECT_EQ(bad.error().message, "too late");
}

TEST(Clock, UnixTimeIsTheSystems) {
  EXPECT_NEAR(unix_seconds(), static_cast<double>(std::time(nullptr)), 5);
}

TEST(Clock, StopwatchesNeverRunBackwards) {
  const Stopwatch watch;
  const double first = watch.seconds();
  EXPECT_GE(first, 0);
  EXPECT_GE(watch.seconds(), first);
}

}  // namespace
}  // namespace thinwire
