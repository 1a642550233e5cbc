#include "thinwire/membership/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "thinwire/base/error.h"

namespace thinwire::membership {
namespace {

// T = 100 s.
class Deadline : public testing::Test {
 protected:
  Deadline() { options_.timeout_s = 100; }
  Options options_;
};

TEST_F(Deadline, IsTheMedianAndSoManyMads) {
  // Median 4, distances 0 1 1 2 16: MAD 1.
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {20, 3, 4, 5, 2}, 0).absent, 8);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {20, 3, 4, 5, 2}, 0).slow, 8);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {2, 4}, 0).absent, 7);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {0, 60}, 0).absent, 130) << "not behind the last one";
}

TEST_F(Deadline, OfAbsentMembersIsAHundredthOfTheTimeOutBehindTheMedian) {
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {3, 3, 3}, 0).absent, 4);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {0.5, 0.5}, 0.6).absent, 1.5);
}

// With steps of half a second nobody should wait for a whole one.
TEST_F(Deadline, OfSlowMembersIsAPartOfARoundBehindTheMedian) {
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {0.5, 0.5}, 0.6).slow, 0.65);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {0.8, 0.8}, 0.6).slow, 1);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {-0.4, 0}, 0).slow, 0.8) << "no round is known";
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {-0.1, -0.1}, 2).slow, 0.4) << "with overlap";
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {60, 60}, 60).slow, 61) << "no more than absent ones";
}

// However long a round is.
TEST_F(Deadline, IsAtLastTheTimeOutBehindWhatRoundsTake) {
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {700, 700}, 0).last, 800);
  EXPECT_DOUBLE_EQ(deadlines_of(options_, {1}, 700).last, 800);
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
