// The state of a run that the live page shows, gathered during the run. docs/page.md.
//
// `thinwire train` feeds it as an events::Listener, with exactly what events.jsonl gets; `thinwire
// serve` reports what the coordinator knows about members and rounds. What is not known is left out
// of the page.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/base/mutex.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"

namespace thinwire::page {

// How members spent their time, in bounded memory, however long the run takes.

// A curve of bounded size, however many points it is given.

// Not thread-safe. Points are kept as means of `stride` neighbours; once kMost are full, pairs of
// them become one and the stride doubles. So between kMost / 2 and kMost points show the whole run.
class Curve {
 public:
  static constexpr size_t kMost = 600;

  // Steps ascend; a value that is not finite is left out.
  void add(int64_t step, double value);

  struct Point {
    int64_t step = 0;  // the last one of those it stands for
    double value = 0;  // their mean
  };
  // The newest one may stand for fewer than `stride` points.
  std::vector<Point> points() const;

 private:
  void halve();

  std::vector<Point> full_;
  int64_t stride_ = 1;
  Point open_;              // value: a sum
  int64_t open_count_ = 0;  // of points in open_
};

// What a member does. kTraining: its part of a step is not divided further (the current state of a
// worker of `thinwire train`); never on the time line.
enum class ActivityKind : uint8_t {
  kComputing,
  kSending,
  kWaiting,
  kCatchingUp,
  kLost,
  kLeft,
  kTraining,
};
inline constexpr std::array<std::string_view, 7> kActivityNames = {
    "computing", "sending", "waiting", "catching up", "lost", "left", "training"};
constexpr std::span<const std::string_view> names_of(ActivityKind) { return kActivityNames; }
inline constexpr size_t kTimedActivities = 5;  // those before kLeft are on the time line

// Not thread-safe. Times are seconds of one clock. Time is divided into buckets of equal width;
// each holds the seconds that a member spent doing what. Once kMost are full, the width doubles.
class TimeLines {
 public:
  static constexpr size_t kMost = 240;
  using Bucket = std::array<float, kTimedActivities>;  // seconds, by Doing

  explicit TimeLines(double start) : start_(start) {}

  // Time before the start is ignored, and so are kLeft and kTraining.
  void spend(size_t member, ActivityKind activity, double from, double to);

  double start() const { return start_; }
  double bucket_s() const { return bucket_s_; }
  // Empty for a member without any time recorded. Empty buckets at the end may be missing.
  std::span<const Bucket> of(size_t member) const;

 private:
  void reach(double time);
  void put(std::vector<Bucket>& line, ActivityKind activity, double from, double to) const;

  double start_;
  double bucket_s_ = 0.5;
  std::vector<std::vector<Bucket>> lines_;  // by member
};

// Bytes of one member in one step, as `thinwire plan` computes them (method::Traffic).
struct PredictedBytes {
  double sent = 0;
  double received = 0;
  bool exact = true;  // false: upper bounds
};

// Facts that are known before the run begins.
struct RunFacts {
  std::string command;  // "train" or "serve"
  std::string name;     // run.name
  std::string method;   // sync.method
  int64_t workers = 0;
  int64_t steps = 0;
  int64_t first_step = 0;          // completed before this process began
  std::optional<uint64_t> rounds;  // of a run of many hosts
  PredictedBytes predicted;
};

// A member at present. Numbers that are not known are 0.
struct MemberNow {
  int id = 0;
  std::string name;
  ActivityKind activity = ActivityKind::kTraining;
  std::string why;                // what it waits for, or why it is lost; may be empty
  int64_t step = -1;              // completed; -1: not known
  std::optional<uint64_t> round;  // that it works on
  double compute_s = 0;           // of its last step or round
  double exchange_s = 0;
  double down_bytes_s = 0;  // of its link, as it measured it
  uint64_t offences = 0;
  uint64_t rows = 0;          // that it has contributed so far
  uint64_t bytes = 0;         // of payloads
  double hours = 0;           // of computing
  double kilowatt_hours = 0;  // as it says
  double co2_kg = 0;          // likewise
  double activity_since = 0;  // set by LiveRun
};

// A round that was closed.
struct ClosedRound {
  uint64_t round = 0;
  int64_t first_step = 0;
  int64_t steps = 1;
  std::optional<double> seconds;  // since it opened; nothing: it was closed before this process
  std::map<int, uint64_t> bytes;  // of what counted, by member
  std::vector<int> missing;       // members whose rows were left out
  // By all members of the round together; nothing: each received what the others sent.
  std::optional<uint64_t> received = {};
};

struct Fault {
  double time = 0;  // seconds since 1970
  std::optional<int> member;
  std::string text;
};

// Everything that the page shows, as a snapshot.
struct PageState {
  RunFacts facts;
  double started = 0;  // seconds since 1970, as all times here
  double now = 0;
  bool finished = false;                  // all rounds are closed
  int64_t step = 0;                       // completed
  uint64_t round = 0;                     // the oldest open one
  std::string waits_for;                  // why no round is open
  std::optional<double> step_s;           // as events::Pace gives it
  std::optional<events::StepEvent> last;  // the newest step's event
  std::map<std::string, double> phases;   // seconds of all steps of this process, by phase
  int64_t phase_steps = 0;                // the number of these steps
  double bytes_sent = 0;                  // by all members, over member_steps
  double bytes_received = 0;
  double member_steps = 0;
  Curve train;
  std::map<std::string, Curve> validation;  // by set
  std::map<std::string, Curve> scores;      // by "task.metric"
  std::map<int, MemberNow> members;
  TimeLines lines{0};
  std::deque<ClosedRound> rounds;  // the latest
  uint64_t closed_rounds = 0;      // all
  std::deque<Fault> faults;        // the latest
  std::deque<Fault> messages;      // likewise
};

// Thread-safe. Every call returns within microseconds, except the one that copies the state.
class LiveRun final : public events::Listener {
 public:
  static constexpr size_t kKept = 100;  // rounds, faults and messages

  // `clock`: seconds since 1970.
  explicit LiveRun(RunFacts facts, std::function<double()> clock = unix_seconds);

  // From `thinwire train`. Workers appear with their first step.
  void on_event(const events::StepEvent& event) override;
  void on_event(const events::EvalEvent& event) override;
  void on_event(const events::MessageEvent& event) override;
  void on_event(const events::WorkerStep& part) override;

  // From `thinwire serve`. What the members do now; the time since the previous call is counted as
  // spent on it. A member that is not listed keeps its state.
  void show(const std::vector<MemberNow>& members);
  // The run's place: completed steps, the oldest open round, and why none is open.
  void show_place(int64_t step, uint64_t round, const std::string& waits_for);
  void close(const ClosedRound& round);
  // The mean training loss in the steps up to this one; steps ascend.
  void add_train_loss(int64_t step, double loss);
  // `member`: the member concerned, if any.
  void add_fault(std::optional<int> member, const std::string& text);

  void finish();

  PageState state() const;

 private:
  const std::function<double()> clock_;
  mutable Mutex mutex_;
  PageState state_ GUARDED_BY(mutex_);
  events::Pace pace_ GUARDED_BY(mutex_);
  double shown_at_ GUARDED_BY(mutex_) = 0;  // when show() was last called
};

// "/state.json": one line of JSON. docs/page.md lists the fields.
std::string print_page_state(const PageState& state);

}  // namespace thinwire::page
