// What a member's terminal shows besides its progress: its activity, such as which members it waits
// for, once that has lasted for a second.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "thinwire/member/member.h"

namespace thinwire::hosts {

// Any thread.
class ActivityDisplay {
 public:
  ActivityDisplay();
  ~ActivityDisplay();
  ActivityDisplay(const ActivityDisplay&) = delete;
  ActivityDisplay& operator=(const ActivityDisplay&) = delete;

  // Shows the activity once it has lasted for a second.
  void show(const member::Activity& activity);

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
