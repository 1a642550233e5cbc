// Waits for the answer to a request to a courier.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/base/error.h"

namespace thinwire::hosts {

template <typename T>
class Waiting {
 public:
  // The callback for the courier; it may be called more than once and outlive this object.
  std::function<void(Result<T>)> setter() const {
    return [state = state_](Result<T> result) {
      if (!state->set.exchange(true)) state->promise.set_value(std::move(result));
    };
  }
  // Whether wait would return at once; false once it has returned the answer.
  bool ready() const {
    return future_.valid() &&
           future_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Whether wait has returned the answer.
  bool answered() const { return !future_.valid(); }
  // kAborted within kPollInterval after `stop`, which may be null, is set.
  Result<T> wait(const std::atomic<bool>* stop) {
    return wait_for(std::numeric_limits<double>::infinity(), stop);
  }
  // Also kDeadline after so many seconds; then it may be called again.
  Result<T> wait_for(double seconds, const std::atomic<bool>* stop = nullptr) {
    const Stopwatch watch;
    while (future_.wait_for(kPollInterval) != std::future_status::ready) {
      if (stop != nullptr && *stop) return fail(FailureKind::kAborted, "it was interrupted");
      if (watch.seconds() >= seconds) return fail(FailureKind::kDeadline, "no answer came");
    }
    return future_.get();
  }

 private:
  static constexpr std::chrono::milliseconds kPollInterval{100};
  struct State {
    std::promise<Result<T>> promise;
    std::atomic<bool> set = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::future<Result<T>> future_ = state_->promise.get_future();
};

}  // namespace thinwire::hosts
