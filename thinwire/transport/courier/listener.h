// A callback that can be stopped from anywhere. stop() waits for a running call to finish, unless
// that call itself called stop(); no call begins afterwards. Thread-safe; a call must not begin
// another one.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "thinwire/base/mutex.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {

template <typename... Arguments>
class Listener {
 public:
  explicit Listener(std::function<void(Arguments...)> callback) : callback_(std::move(callback)) {}

  void call(Arguments... arguments) {
    const Lock lock(calling_);
    if (stopped_) return;
    caller_ = std::this_thread::get_id();
    callback_(std::move(arguments)...);
    caller_ = std::thread::id();
  }
  void stop() {
    stopped_ = true;
    if (caller_ == std::this_thread::get_id()) return;  // from the callback
    const Lock after_the_call(calling_);
  }

 private:
  const std::function<void(Arguments...)> callback_;
  std::atomic<bool> stopped_ = false;
  Mutex calling_;
  std::atomic<std::thread::id> caller_{};
};

// Stops a listener, then runs `afterwards`.
template <typename Listening>
class ListenerSubscription final : public Subscription {
 public:
  ListenerSubscription(std::shared_ptr<Listening> listener, std::function<void()> afterwards)
      : listener_(std::move(listener)), afterwards_(std::move(afterwards)) {}
  ~ListenerSubscription() override {
    listener_->stop();
    afterwards_();
  }
  ListenerSubscription(const ListenerSubscription&) = delete;
  ListenerSubscription& operator=(const ListenerSubscription&) = delete;

 private:
  std::shared_ptr<Listening> listener_;
  std::function<void()> afterwards_;
};

}  // namespace thinwire::transport
