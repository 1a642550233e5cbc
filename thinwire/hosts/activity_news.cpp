#include "thinwire/hosts/activity_news.h"

#include <chrono>

#include "thinwire/events/progress.h"

namespace thinwire::hosts {
namespace {

constexpr std::chrono::seconds kMoment(1);

}  // namespace

ActivityNews::ActivityNews() : thread_([this] { show_what_lasts(); }) {}

ActivityNews::~ActivityNews() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ActivityNews::tell(const member::Activity& activity) {
  const std::lock_guard lock(mutex_);
  // The progress line shows training.
  text_ = activity.doing == member::Doing::kTraining ? "" : activity.text;
  ++changes_;
  changed_.notify_one();
}

void ActivityNews::show_what_lasts() {
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
