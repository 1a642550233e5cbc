// The event log of a run: events.jsonl, one JSON object a line, append-only. Every line has "event"
// (step, eval, message, or a name of its own), "time" (seconds since 1970) and, where it belongs to
// one, "step" (optimizer steps completed, the event's own included). Numbers that are not finite
// are null. docs/formats.md lists the fields.
//
// Each line is handed to the system by one write call on a file opened for appending, so a crash of
// the process loses nothing already written and readers see whole lines; sync() guards against a
// crash of the machine. An incomplete last line is removed when the log is opened again.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/mutex.h"
#include "thinwire/events.h"

namespace thinwire::events {

// A name that logs and curves have for each of them.
struct RewardField {
  const char* name;
  double Rewards::*value;
};
inline constexpr RewardField kRewardFields[] = {{"accuracy", &Rewards::accuracy},
                                                {"margin", &Rewards::margin},
                                                {"chosen", &Rewards::chosen},
                                                {"rejected", &Rewards::rejected}};

// Writes one log. All functions may be called from several threads; all throw Error naming the file
// and the system's reason, and a line cut short by a full disk is removed again.
class RunLog {
 public:
  // Begins a new log, replacing an old one.
  explicit RunLog(fs::path file);
  // Continues a log, if there is one, after `resume_step` steps: lines of later steps are dropped,
  // and so is an incomplete last line.
  RunLog(fs::path file, int64_t resume_step);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  void write(const StepEvent& event);
  void write(const EvalEvent& event);
  void write(const MessageEvent& event);
  // Any other event; `record` is an object with its fields. "event" and "time" are added before
  // them.
  void write(const std::string& event, const nlohmann::ordered_json& record);

  // Returns when everything written is on disk.
  void sync();
  // Whether an incomplete last line was found and dropped.
  bool repaired() const { return repaired_; }

 private:
  void open(int flags);
  void append(const std::string& line);

  fs::path path_;
  bool repaired_ = false;
  int file_ = -1;
  Mutex writing_;  // one line at a time
};

// The contents of a log. Events of other kinds are left out.
struct RunHistory {
  std::vector<StepEvent> steps;
  std::vector<EvalEvent> evals;
  std::vector<MessageEvent> messages;
  bool torn = false;  // the last line is incomplete and was left out
};

// Throws Error naming file, line and field if anything but the last line is damaged.
RunHistory read_run_log(const fs::path& file);

// Receives what a run records while it is recorded: the events of events.jsonl, and each worker's
// own part of every step, of which the log keeps only the mean over the workers.

// One worker's part of one step; seconds by the worker's own clock.
struct WorkerStep {
  int worker = 0;
  int64_t step = 0;       // completed steps, this one included
  double compute_s = 0;   // reading rows, forward and backward passes, updating weights
  double exchange_s = 0;  // sending, and waiting for the others
};

// Called on the run's own threads, one call at a time, so implementations return quickly. Events
// that were read back from the log of a resumed run come first; they have a time above 0.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void on_event(const StepEvent& event) = 0;
  virtual void on_event(const EvalEvent& event) = 0;
  virtual void on_event(const MessageEvent& event) = 0;
  virtual void on_event(const WorkerStep& part) = 0;
  virtual void on_checkpoint(const CheckpointEvent& /*event*/) {}
};

// Typed reading of JSON objects for the files of a run. Private to events' .cpp files, since it
// includes the JSON library.

using Json = nlohmann::ordered_json;

// Reads the fields of one JSON object. Every Error begins with `origin` (the file, and the line if
// it has lines) and names the key, the expected type and what is there instead.
class JsonFields {
 public:
  // Throws Error if `object` is not an object. Both arguments must outlive this.
  JsonFields(const Json& object, std::string_view origin);

  bool has(const std::string& key) const { return object_.contains(key); }
  // A number; null reads as NaN.
  double number(const std::string& key) const;
  int64_t integer(const std::string& key) const;
  std::string text(const std::string& key) const;
  const Json& object(const std::string& key) const;

 private:
  const Json& at(const std::string& key, const char* type) const;
  [[noreturn]] void wrong_type(const std::string& key, const char* type) const;

  const Json& object_;
  std::string_view origin_;
};

}  // namespace thinwire::events
