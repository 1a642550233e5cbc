#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <vector>

#include "thinwire/base/threads.h"

namespace thinwire {
namespace {

TEST(HelperThreads, EveryPieceIsDoneOnceWhoeverTakesIt) {
  for (const int count : {0, 1, 3}) {
    HelperThreads helpers(count);
    EXPECT_EQ(helpers.size(), count);
    std::vector<std::atomic<int>> done(64);
    for (int repeat = 1; repeat <= 500; ++repeat) {
      // Long enough, now and then, for helpers to fall asleep.
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
      while (repeat % 100 == 0 && std::chrono::steady_clock::now() < until) {
      }
      std::atomic<size_t> next = 0;
      helpers.share([&] {
        for (size_t i = next++; i < done.size(); i = next++) ++done[i];
      });
      ASSERT_TRUE(std::ranges::all_of(done, [&](const auto& times) { return times == repeat; }));
    }
  }
}

// The call would never return if helpers did not come.
TEST(HelperThreads, HelpersComeWhileTheCallerIsBusy) {
  HelperThreads helpers(2);
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::atomic<int> here = 0;
    helpers.share([&] {
      ++here;
      while (here < 3) std::this_thread::yield();
    });
    EXPECT_EQ(here, 3);
  }
}

TEST(HelperThreads, TheCallerDoesNotWaitForHelpersThatHaveNotBegun) {
  HelperThreads helpers(1);
  std::atomic<int> calls = 0;
  for (int repeat = 0; repeat < 1000; ++repeat) helpers.share([&] { ++calls; });
  EXPECT_GE(calls, 1000);
  EXPECT_LE(calls, 2000);
}

}  // namespace
}  // namespace thinwire
