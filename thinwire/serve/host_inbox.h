// What a courier's thread hands to the thread that ticks a coordinator's host.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>
#include <variant>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/membership/messages.h"

namespace thinwire::serve {

struct HeardStatement {
  Bytes bytes;
};
struct ReadRecord {
  uint64_t reading;  // which subscription it is from
  uint64_t sequence;
  Bytes bytes;
};
struct FetchedPayload {
  membership::Offer offer;
  Result<Bytes> bytes;
};
using Arrival = std::variant<HeardStatement, ReadRecord, FetchedPayload>;

// Thread-safe.
class Inbox {
 public:
  void add(Arrival arrival) {
    const std::lock_guard lock(mutex_);
    arrivals_.push_back(std::move(arrival));
    arrived_.notify_all();
  }
  std::deque<Arrival> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(arrivals_, {});
  }
  void wait(double seconds) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return !arrivals_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Arrival> arrivals_;
};

}  // namespace thinwire::serve
