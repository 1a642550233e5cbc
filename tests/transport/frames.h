// Members of one process that communicate with frames, as processes would: each has a thread that
// delivers what arrived and works.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "thinwire/transport/frame_hub.h"

namespace thinwire::transport {

class FrameNetwork {
 public:
  explicit FrameNetwork(int members) {
    for (int member = 0; member < members; ++member) ends_.push_back(std::make_unique<End>());
    for (int member = 0; member < members; ++member) {
      end(member).hub = std::make_shared<FrameHub>(
          member, members,
          [this, member](int to, Bytes frame) { inject(member, to, std::move(frame)); });
    }
    for (int member = 0; member < members; ++member) {
      end(member).thread = std::thread([this, member] { run(end(member)); });
    }
  }
  ~FrameNetwork() {
    stop_ = true;
    for (auto& one : ends_) one->thread.join();
  }
  FrameNetwork(const FrameNetwork&) = delete;
  FrameNetwork& operator=(const FrameNetwork&) = delete;

  const std::shared_ptr<FrameHub>& hub(int member) { return end(member).hub; }
  // As if member `from` had sent these bytes.
  void inject(int from, int to, Bytes frame) {
    const std::lock_guard lock(end(to).mutex);
    end(to).inbox.emplace_back(from, std::move(frame));
  }

 private:
  struct End {
    std::shared_ptr<FrameHub> hub;
    std::mutex mutex;
    std::deque<std::pair<int, Bytes>> inbox;
    std::thread thread;
  };

  End& end(int member) { return *ends_[static_cast<size_t>(member)]; }

  void run(End& own) {
    while (!stop_) {
      std::deque<std::pair<int, Bytes>> arrived;
      {
        const std::lock_guard lock(own.mutex);
        arrived.swap(own.inbox);
      }
      for (auto& [from, frame] : arrived) {
        deliver_frame({&own.hub, 1}, from, from + 1, std::move(frame));
      }
      if (!own.hub->work() && arrived.empty()) std::this_thread::yield();
    }
  }

  std::vector<std::unique_ptr<End>> ends_;
  std::atomic<bool> stop_ = false;
};

}  // namespace thinwire::transport
