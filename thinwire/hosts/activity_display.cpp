#include "thinwire/hosts/activity_display.h"

#include <chrono>

#include "thinwire/events/progress.h"

namespace thinwire::hosts {
namespace {

constexpr std::chrono::seconds kMoment(1);

}  // namespace

ActivityDisplay::ActivityDisplay() : thread_([this] { show_what_lasts(); }) {}

ActivityDisplay::~ActivityDisplay() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ActivityDisplay::show(const member::Activity& activity) {
  const std::lock_guard lock(mutex_);
  // The progress line shows training.
  text_ = activity.kind == member::ActivityKind::kTraining ? "" : activity.text;
  ++changes_;
  changed_.notify_one();
}

void ActivityDisplay::show_what_lasts() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    const uint64_t before = changes_;
    const auto changed = [&] { return ended_ || changes_ != before; };
    if (changed_.wait_for(lock, kMoment, changed)) continue;
    if (!text_.empty() && text_ != shown_) events::print_message(text_);
    shown_ = text_;
    changed_.wait(lock, changed);
  }
}

}  // namespace thinwire::hosts
