#include "thinwire/membership/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::membership {
namespace {

TEST(Deadline, IsTheMedianAndSoManyMads) {
  Options options;
  options.timeout_s = 100;
  // Median 4, distances 0 1 1 2 16: MAD 1.
  EXPECT_DOUBLE_EQ(deadline_s(options, {20, 3, 4, 5, 2}), 8);
  EXPECT_DOUBLE_EQ(deadline_s(options, {2, 4}), 7);
  EXPECT_DOUBLE_EQ(deadline_s(options, {3, 3, 3}), 4);  // the least grace
  EXPECT_DOUBLE_EQ(deadline_s(options, {99.5}), 100);   // never behind the time-out
}

TEST(Options, NameWhatIsWrong) {
  const auto refusal = [](auto set) {
    Options options;
    set(options);
    try {
      options.check();
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](Options&) {}), "");
  EXPECT_EQ(refusal([](Options& o) { o.quorum = 0; }),
            "quorum must be above 0 and at most 1, got 0");
  EXPECT_EQ(refusal([](Options& o) { o.timeout_s = -1; }),
            "timeout_s must be above 0 and finite, got -1");
  EXPECT_EQ(refusal([](Options& o) { o.spread = std::numeric_limits<double>::infinity(); }),
            "spread must be at least 0 and finite, got inf");
  EXPECT_EQ(refusal([](Options& o) { o.max_offences = 0; }),
            "max_offences must be at least 1, got 0");
}

TEST(Options, AreThoseOfTheRecipe) {
  config::SyncSection sync;
  sync.timeout_s = 90;
  sync.quorum = 0.75;
  sync.shares = config::RowShares::kSpeed;
  const Options options = options_of(sync);
  EXPECT_EQ(options.timeout_s, 90);
  EXPECT_EQ(options.quorum, 0.75);
  EXPECT_EQ(options.shares, config::RowShares::kSpeed);
}

}  // namespace
}  // namespace thinwire::membership
