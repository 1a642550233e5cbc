// Mutexes whose use Clang checks at compile time: a member says which mutex guards it, a function
// which mutex its caller holds, and -Wthread-safety (in every build by Clang) finds each access
// without it. https://clang.llvm.org/docs/ThreadSafetyAnalysis.html. GCC ignores all of this.
//
//   int free_ GUARDED_BY(mutex_);            // is read and written only with mutex_ held
//   void take() REQUIRES(mutex_);            // is called only with mutex_ held
//   void acquire() EXCLUDES(mutex_);         // is called only without it, since it locks it
//
// The analysis does not see who calls a std::function, so a lambda that is called with the mutex
// held says so: [&]() REQUIRES(mutex_) { return free_ > 0; }. It leaves out constructors and
// destructors.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define THINWIRE_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define THINWIRE_THREAD_SAFETY(attribute)
#endif

#define GUARDED_BY(mutex) THINWIRE_THREAD_SAFETY(guarded_by(mutex))
#define REQUIRES(mutex) THINWIRE_THREAD_SAFETY(requires_capability(mutex))
#define EXCLUDES(mutex) THINWIRE_THREAD_SAFETY(locks_excluded(mutex))
#define NO_THREAD_SAFETY_ANALYSIS THINWIRE_THREAD_SAFETY(no_thread_safety_analysis)

namespace thinwire {

// A std::mutex. Code holds it through a Lock.
class THINWIRE_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() THINWIRE_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() THINWIRE_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  bool try_lock() THINWIRE_THREAD_SAFETY(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds a mutex for a scope.
class THINWIRE_THREAD_SAFETY(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) THINWIRE_THREAD_SAFETY(acquire_capability(mutex)) : mutex_(mutex) {
    mutex.lock();
  }
  ~Lock() THINWIRE_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// The reverse, inside the scope of a Lock or in a function that REQUIRES the mutex: lets go of it
// for a scope, also one that an exception ends.
class THINWIRE_THREAD_SAFETY(scoped_lockable) Unlock {
 public:
  explicit Unlock(Mutex& mutex) THINWIRE_THREAD_SAFETY(release_capability(mutex)) : mutex_(mutex) {
    mutex.unlock();
  }
  ~Unlock() THINWIRE_THREAD_SAFETY(release_capability()) { mutex_.lock(); }
  Unlock(const Unlock&) = delete;
  Unlock& operator=(const Unlock&) = delete;

 private:
  Mutex& mutex_;
};

// A std::condition_variable. The functions let go of the mutex while they wait; those without
// `ready` may return too early: while (free_ == 0) freed_.wait(mutex_);
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // These return false if the time has come.
  template <typename Time>
  bool wait_until(Mutex& mutex, const Time& time) REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, time);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  template <typename Duration>
  bool wait_for(Mutex& mutex, const Duration& duration) REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + duration);
  }
  // These return whether ready() is true, which is called with the mutex held.
  template <typename Time, typename Ready>
  bool wait_until(Mutex& mutex, const Time& time, const Ready& ready) REQUIRES(mutex)
      NO_THREAD_SAFETY_ANALYSIS {  // it does not know that what `ready` requires is `mutex`
    while (!ready()) {
      if (!wait_until(mutex, time)) return ready();
    }
    return true;
  }
  template <typename Duration, typename Ready>
  bool wait_for(Mutex& mutex, const Duration& duration, const Ready& ready) REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + duration, ready);
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace thinwire
