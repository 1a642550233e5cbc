#include "thinwire/transport/courier/listener.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

namespace thinwire::transport {
namespace {

TEST(Listener, ACallbackMayStopIt) {
  int calls = 0;
  Listener<int>* self = nullptr;
  Listener<int> listener([&](int) {
    ++calls;
    self->stop();
  });
  self = &listener;
  listener.call(1);
  listener.call(2);
  EXPECT_EQ(calls, 1);
}

TEST(Listener, StoppingWaitsForTheCallOfAnotherThread) {
  std::latch begun(1);
  std::atomic<bool> may_end = false;
  std::atomic<bool> ended = false;
  Listener<int> listener([&](int) {
    begun.count_down();
    may_end.wait(false);
    ended = true;
  });
  std::thread caller([&] { listener.call(1); });
  begun.wait();
  std::latch stops(1);
  std::thread stopper([&] {
    stops.count_down();
    listener.stop();
    EXPECT_TRUE(ended);
  });
  stops.wait();
  may_end = true;
  may_end.notify_all();
  stopper.join();
  caller.join();
}

TEST(Listener, NothingIsCalledAfterItWasStopped) {
  int calls = 0;
  Listener<int> listener([&](int) { ++calls; });
  listener.stop();
  listener.call(1);
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace thinwire::transport
