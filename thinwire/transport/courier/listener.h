// A callback that can be stopped from anywhere. stop() waits for a running call to finish, unless
// that call itself called stop(); no call begins afterwards. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "thinwire/transport/courier/courier.h"

namespace thinwire::transport {

template <typename... Arguments>
class Listener {
 public:
  explicit Listener(std::function<void(Arguments...)> callback) : callback_(std::move(callback)) {}

  void call(Arguments... arguments) {
    const std::scoped_lock lock(mutex_);
    if (!stopped_) callback_(std::move(arguments)...);
  }
  void stop() {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
  }

 private:
  std::recursive_mutex mutex_;  // a callback may end its own subscription
  bool stopped_ = false;
  const std::function<void(Arguments...)> callback_;
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
