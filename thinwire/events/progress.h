// Progress of long work on stderr. On a terminal: one live line that is rewritten at most ten times
// a second, fits the window's width and disappears at the end. Elsewhere: a plain line now and
// then. NO_COLOR turns colour off; TERM=dumb does not count as a terminal.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/mutex.h"

namespace thinwire::events {

// Text after the count, e.g. {"loss", "3.214"}. If the line is too narrow, the last fields are
// dropped first.
struct ProgressField {
  std::string name;  // may be empty
  std::string value;
};

struct ProgressOptions {
  int64_t start = 0;             // work done before this process began, e.g. steps before a resume
  int64_t plain_every = 0;       // plain output: a line each time this much is done; 0: by time
  double plain_interval_s = 10;  // plain output by time: seconds between lines
  bool bytes = false;            // done and total are bytes
  bool seconds = false;          // they are seconds
  bool silent = false;           // nothing is shown
  int file = STDERR_FILENO;
};

// One piece of work. update() and finish() are called from one thread at a time; print_message()
// from any thread. At most one Progress of a process is shown live; a second one that begins
// meanwhile stays silent. Nothing here throws if the terminal has gone.
class Progress {
 public:
  // total 0: not known.
  Progress(std::string label, int64_t total, ProgressOptions options = {});
  // Erases the live line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Whether it is shown as a live line on a terminal.
  bool live() const;
  // Whether update(done) would show anything now; if not, there is no need to make its fields.
  bool due(int64_t done) const;
  // Shows the state if it is due; the time left is estimated from the rate since the beginning.
  void update(int64_t done, std::vector<ProgressField> fields);
  // The same with the seconds left as the caller knows them; nothing: they are not known yet.
  void update(int64_t done, std::vector<ProgressField> fields, std::optional<double> left_s);
  // The last state: a plain line in plain output, none on a terminal.
  void finish();

 private:
  friend void print_message(std::string_view text);
  friend void print_needed(std::string_view text);
  friend void set_quiet();
  enum class Mode : uint8_t { kSilent, kPlain, kLive };

  bool is_due(int64_t done) const REQUIRES(screen_);
  std::optional<double> estimate(int64_t done) const;
  void show() REQUIRES(screen_);
  void erase() REQUIRES(screen_);
  void put(std::string_view text) const REQUIRES(screen_);
  std::string count_text() const REQUIRES(screen_);
  std::string left_text() const REQUIRES(screen_);
  std::string plain_line() const REQUIRES(screen_);
  std::string live_line() const REQUIRES(screen_);

  // What is shown on this process's terminal now.
  static inline Mutex screen_;
  static inline Progress* shown_ GUARDED_BY(screen_) = nullptr;
  static inline bool quiet_ GUARDED_BY(screen_) = false;

  const std::string label_;
  const int64_t total_;
  const ProgressOptions options_;
  const double began_;
  Mode mode_ GUARDED_BY(screen_) = Mode::kSilent;
  bool colour_ GUARDED_BY(screen_) = false;
  bool drawn_ GUARDED_BY(screen_) = false;
  int64_t done_ GUARDED_BY(screen_);
  int64_t shown_done_ GUARDED_BY(screen_);
  double shown_at_ GUARDED_BY(screen_);
  std::vector<ProgressField> fields_ GUARDED_BY(screen_);
  std::optional<double> left_s_ GUARDED_BY(screen_);
};

// Prints one line to stderr, above the live line if there is one. May be called from any thread.
void print_message(std::string_view text);

// The same for a line without which the command would be of no use: set_quiet does not hide it.
void print_needed(std::string_view text);

// From here on neither progress nor messages are shown: for --quiet.
void set_quiet();

// Takes one line of text for the user, on any thread.
using MessageSink = std::function<void(std::string_view text)>;
inline void tell_nobody(std::string_view /*text*/) {}

// Where a run shows what it does; nowhere, if nothing is set.
struct Display {
  MessageSink message = tell_nobody;
  MessageSink needed = tell_nobody;  // without which the command would be of no use
  bool progress = false;             // whether it is shown as a Progress on stderr
};
// On stderr: print_message, print_needed and Progress.
Display terminal_display();

// How fast a run goes at present: the mean over its latest steps, from which the time left follows.
// Terminals and the live page show the same figures because both use this class. Not thread-safe.
class Pace {
 public:
  static constexpr size_t kLatest = 50;  // calls over which the mean is taken

  // `done` steps are done at `now`, in seconds of any clock. A call counts if there are more of
  // them than at the last one.
  void note(int64_t done, double now) {
    if (!latest_.empty() && done <= latest_.back().first) return;
    latest_.emplace_back(done, now);
    if (latest_.size() > kLatest) latest_.pop_front();
  }
  // Seconds that a step takes; nothing until two calls have counted.
  std::optional<double> step_s() const {
    if (latest_.size() < 2) return std::nullopt;
    const auto& [first_done, first] = latest_.front();
    const auto& [done, now] = latest_.back();
    return (now - first) / static_cast<double>(done - first_done);
  }
  // Seconds until `total` steps are done.
  std::optional<double> left_s(int64_t total) const {
    const std::optional<double> one = step_s();
    if (!one) return std::nullopt;
    return *one * static_cast<double>(total - latest_.back().first);
  }

 private:
  std::deque<std::pair<int64_t, double>> latest_;
};

}  // namespace thinwire::events
