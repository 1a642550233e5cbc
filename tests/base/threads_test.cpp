#include "thinwire/base/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <numeric>
#include <stdexcept>

#include "thinwire/base/error.h"

namespace thinwire {
namespace {

struct Share {
  int64_t begin;
  int64_t end;
  int thread;
  auto operator<=>(const Share&) const = default;
};

std::vector<Share> shares(ThreadPool& pool, int64_t count, int64_t grain) {
  std::mutex mutex;
  std::vector<Share> all;
  pool.for_ranges(count, grain, [&](int64_t begin, int64_t end, int thread) {
    const std::lock_guard lock(mutex);
    all.push_back({begin, end, thread});
  });
  std::sort(all.begin(), all.end());
  return all;
}

TEST(ThreadPool, CallsTheBodyOnceForEveryIndex) {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (const int64_t count : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      pool.for_each(count, [&](int64_t index) { ++calls[static_cast<size_t>(index)]; });
      for (const auto& number : calls) EXPECT_EQ(number, 1);
    }
  }
}

TEST(ThreadPool, SharesAreContiguousFixedAndBorderedByTheGrain) {
  ThreadPool pool(3);
  const std::vector<Share> first = shares(pool, 1000, 64);
  ASSERT_EQ(first.size(), 3u);
  EXPECT_EQ(first.front().begin, 0);
  EXPECT_EQ(first.back().end, 1000);
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].thread, static_cast<int>(i));
    EXPECT_EQ(first[i].begin % 64, 0);
    if (i > 0) {
      EXPECT_EQ(first[i].begin, first[i - 1].end);
    }
  }
  for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(shares(pool, 1000, 64), first);
}

TEST(ThreadPool, ThreadsWithoutAShareAreNotCalled) {
  ThreadPool pool(4);
  EXPECT_EQ(shares(pool, 100, 64).size(), 2u);
  EXPECT_TRUE(shares(pool, 0, 64).empty());
}

TEST(ThreadPool, SharesRunAtTheSameTime) {
  ThreadPool pool(3);
  std::latch all_here(3);  // nobody gets past it alone
  pool.for_each(3, [&](int64_t) { all_here.arrive_and_wait(); });
  EXPECT_TRUE(all_here.try_wait());
}

TEST(ThreadPool, RethrowsFromAnyThreadAndGoesOn) {
  ThreadPool pool(3);
  for (const int64_t guilty : {0, 1, 2}) {
    EXPECT_THROW(pool.for_each(3,
                               [&](int64_t index) {
                                 if (index == guilty) throw std::out_of_range("share");
                               }),
                 std::out_of_range);
    std::atomic<int> calls = 0;
    pool.for_each(3, [&](int64_t) { ++calls; });
    EXPECT_EQ(calls, 3);
  }
}

TEST(ThreadPool, NeedsAThread) { EXPECT_THROW(ThreadPool(0), Error); }

TEST(CorePermits, NeverHandOutMoreThanThereAre) {
  CorePermits permits(3);
  std::atomic<int> busy = 0;
  std::atomic<int> most = 0;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 6; ++worker) {
    workers.emplace_back([&, count = 1 + worker % 3] {
      for (int repeat = 0; repeat < 200; ++repeat) {
        const PermitHold hold(&permits, count);
        const int now = busy += count;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) continue;
        busy -= count;
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_LE(most, 3);
  EXPECT_GE(most, 3);  // a worker with three permits ran
}

TEST(PermitHold, GivesItsPermitsBackWhilePaused) {
  CorePermits permits(1);
  PermitHold first(&permits, 1);
  first.pause();
  std::thread other([&] { const PermitHold second(&permits, 1); });
  other.join();  // would hang if the slot were still held
  first.resume();
  first.resume();  // holding twice is holding once
  first.pause();
  permits.acquire(1);
  permits.release(1);
}

TEST(PermitHold, WithoutPermitsDoesNothing) {
  PermitHold hold(nullptr, 5);
  hold.pause();
  hold.resume();
}

}  // namespace
}  // namespace thinwire
