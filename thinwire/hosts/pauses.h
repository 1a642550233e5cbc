// When a member leaves its machine to somebody else: outside of given hours, while the machine runs
// on its battery, while others use its processor, or while its connection is paid for by the byte
// (thinwire join --hours, --pause-when). docs/operations.md, "A machine that is somebody's".
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "thinwire/base/clock.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/events/progress.h"

namespace thinwire::hosts {

// Times of day, in minutes since midnight, local time. `from` itself is within, `to` is not; from
// 22:00 to 7:00 goes past midnight.
struct Hours {
  int from = 0;
  int to = 0;
  bool has(int minute) const;
};

struct PauseRules {
  std::optional<Hours> hours = {};  // in which it may compute; none: always
  bool busy = false;
  bool battery = false;
  bool metered = false;
  bool empty() const { return !hours && !busy && !battery && !metered; }
};

// "22-7", "8:30-17". Throws UsageError naming --hours.
Hours parse_hours(std::string_view text);
// Sets what "busy,battery" names. Throws UsageError naming --pause-when.
void parse_pause_when(std::string_view text, PauseRules& rules);

// What a machine is doing.
struct MachineUse {
  int minute = 0;        // of the day, local time
  double others = 0;     // share of all cores that other processes have used since the last look
  bool battery = false;  // it is not connected to power
  bool metered = false;  // its connection is
};

// Others are there from this share of all cores on, and gone below half of it.
inline constexpr double kBusyShare = 0.25;

// Why the member pauses, for users: "the machine runs on its battery"; empty: it computes.
// `paused`: whether it pauses now.
std::string why_paused(const PauseRules& rules, const MachineUse& use, bool paused);

// Looks at this machine. Used by one thread at a time.
class MachineWatch {
 public:
  // Throws UsageError if a rule needs what this machine cannot tell. `root` is where /proc and /sys
  // are found.
  explicit MachineWatch(const PauseRules& rules, fs::path root = "/");
  // `now`: seconds of a clock that never goes back. What others use is measured over a second at
  // least, before which it is 0; NetworkManager is asked once a minute, and its last answer holds.
  MachineUse look(double now = monotonic_seconds());

 private:
  // Their share of all cores since the last look.
  double others_by(double now);
  bool is_on_battery() const;
  bool is_metered(double now);

  const PauseRules rules_;
  const fs::path root_;
  ComputedSeconds last_;
  std::optional<double> last_at_;
  double others_ = 0;  // as last measured
  bool metered_ = false;
  double asked_at_ = 0;  // NetworkManager
};

// Watches a machine while a member is there. Thread-safe.
class Pauses {
 public:
  struct Times {
    double look_s = 5;    // between looks
    double least_s = 60;  // a pause for others takes, since they come and go
  };
  // `look` may throw: what it found last then holds. `stop`, which may be null: the member is to
  // leave for good. `message` is told why it pauses and when that is over.
  Pauses(PauseRules rules, std::function<MachineUse()> look, const std::atomic<bool>* stop,
         events::MessageSink message, Times times);
  ~Pauses();
  Pauses(const Pauses&) = delete;
  Pauses& operator=(const Pauses&) = delete;

  // Set once the member is not to compute, for whichever reason, and until wait() has returned.
  const std::atomic<bool>* leaves() const { return &leaves_; }
  // Whether that is because of the rules.
  bool paused() const { return leaves_ && !stopped(); }
  // Waits until it may compute, or `ends()` is true. False: it is to leave for good.
  bool wait(const std::function<bool()>& ends);

 private:
  bool stopped() const { return stop_ != nullptr && *stop_; }
  void watch();
  // Why it pauses by what the machine is doing now.
  std::string look(bool paused);

  const PauseRules rules_;
  const std::function<MachineUse()> look_;
  const std::atomic<bool>* const stop_;
  const events::MessageSink message_;
  const Times times_;
  std::atomic<bool> leaves_ = false;
  MachineUse use_;       // as last found, by the thread that looks
  double busy_at_ = -1;  // when others were last there; -1: never
  Mutex mutex_;
  Condition changed_;
  std::string why_ GUARDED_BY(mutex_);  // it pauses; empty: it does not
  bool ends_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace thinwire::hosts
