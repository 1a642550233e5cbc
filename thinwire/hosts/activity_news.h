// What a member's terminal shows besides its progress: what it is doing, and whom it waits for if
// that takes longer than a moment.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "thinwire/member/member.h"

namespace thinwire::hosts {

// Any thread.
class ActivityNews {
 public:
  ActivityNews();
  ~ActivityNews();
  ActivityNews(const ActivityNews&) = delete;
  ActivityNews& operator=(const ActivityNews&) = delete;

  // Shown once it has lasted for a second.
  void tell(const member::Activity& activity);

 private:
  void show_what_lasts();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  uint64_t changes_ = 0;
  std::string text_;   // of the current activity; empty while it trains
  std::string shown_;  // the last one shown
  std::thread thread_;
};

}  // namespace thinwire::hosts
