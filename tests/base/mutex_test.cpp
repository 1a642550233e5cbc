#include "thinwire/base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace thinwire {
namespace {

bool is_free(Mutex& mutex) {
  bool free = false;
  std::thread([&] {
    if (!mutex.try_lock()) return;
    free = true;
    mutex.unlock();
  }).join();
  return free;
}

TEST(Mutex, IsHeldForTheScopeOfItsLock) {
  Mutex mutex;
  {
    const Lock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, IsFreeForTheScopeOfAnUnlockAndHeldAgainAfterAnException) {
  Mutex mutex;
  const Lock lock(mutex);
  try {
    const Unlock meanwhile(mutex);
    EXPECT_TRUE(is_free(mutex));
    throw std::runtime_error("ends the scope");
  } catch (const std::runtime_error&) {
    EXPECT_FALSE(is_free(mutex));
  }
}

struct Flag {
  Mutex mutex;
  Condition changed;
  bool set GUARDED_BY(mutex) = false;
};

TEST(Condition, LetsGoOfTheMutexWhileItWaits) {
  Flag flag;
  std::thread other;
  {
    const Lock lock(flag.mutex);
    other = std::thread([&flag] {
      const Lock lock_of_other(flag.mutex);
      flag.set = true;
      flag.changed.notify_one();
    });
    while (!flag.set) flag.changed.wait(flag.mutex);
    EXPECT_FALSE(is_free(flag.mutex));
  }
  other.join();
}

TEST(Condition, SaysWhetherWhatIsWaitedForCameInTime) {
  Flag flag;
  const auto past = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  const auto is_set = [&flag]() REQUIRES(flag.mutex) { return flag.set; };
  const Lock lock(flag.mutex);
  EXPECT_FALSE(flag.changed.wait_until(flag.mutex, past, is_set));
  flag.set = true;
  EXPECT_TRUE(flag.changed.wait_until(flag.mutex, past, is_set));
  EXPECT_FALSE(is_free(flag.mutex));
}

}  // namespace
}  // namespace thinwire
