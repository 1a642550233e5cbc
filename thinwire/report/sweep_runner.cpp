#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <thread>

#include "thinwire/base/error.h"
#include "thinwire/base/process.h"
#include "thinwire/events/progress.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::report {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);

bool finished(const SweepRun& run) { return fs::exists(run.folder / "summary.json"); }

// The last nonempty line that a run printed: its error message.
std::string last_line(const fs::path& log) {
  std::string text = read_text_file(log);
  text.erase(text.find_last_not_of(" \n\r") + 1);
  return text.substr(text.find_last_of('\n') + 1);
}

class Sweep {
 public:
  Sweep(std::span<const SweepRun> runs, int jobs, const std::atomic<int>& interrupts,
        const events::Display& display)
      : runs_(runs),
        jobs_(static_cast<size_t>(jobs)),
        interrupts_(interrupts),
        display_(display),
        outcomes_(runs.size()) {}

  std::vector<RunOutcome> run() {
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (finished(runs_[i])) settle(i, {RunState::kDone, ""});
    }
    events::Progress progress(
        "sweep", static_cast<int64_t>(runs_.size()),
        {.start = static_cast<int64_t>(settled_), .silent = !display_.progress});
    while (!running_.empty() || may_start()) {
      while (may_start() && running_.size() < jobs_) start();
      forward_interrupts();
      collect();
      const auto done = static_cast<int64_t>(settled_);
      if (progress.due(done)) progress.update(done, fields());
      std::this_thread::sleep_for(kPollInterval);
    }
    progress.finish();
    return std::move(outcomes_);
  }

 private:
  struct Child {
    size_t index;
    Process process;
  };

  bool may_start() {
    while (next_ < runs_.size() && outcomes_[next_].state == RunState::kDone) ++next_;
    return next_ < runs_.size() && interrupts_ == 0;
  }

  void start() {
    const SweepRun& run = runs_[next_];
    try {
      fs::create_directories(run.folder.parent_path());
      write_file(run.log(), "");
      running_.push_back({next_, Process(run.command, run.log(), /*own_group=*/true)});
    } catch (const std::exception& error) {
      settle(next_, {RunState::kFailed, plain_message(error)});
    }
    ++next_;
  }

  void forward_interrupts() {
    const int now = interrupts_;
    for (; forwarded_ < now; ++forwarded_) {
      for (Child& child : running_) child.process.signal(SIGINT);
    }
  }

  void collect() {
    std::erase_if(running_, [&](Child& child) {
      const auto end = child.process.poll();
      if (end) settle(child.index, outcome(runs_[child.index], *end));
      return end.has_value();
    });
  }

  RunOutcome outcome(const SweepRun& run, const ExitState& end) const {
    if (end.ok() && finished(run)) return {RunState::kDone, ""};
    if (interrupts_ > 0) return {RunState::kStopped, ""};
    const std::string why = end.ok() ? "it ended without a summary.json" : end.describe();
    const std::string last = last_line(run.log());
    return {RunState::kFailed, fmt::format("{}{}{} (all it printed: {})", why,
                                           last.empty() ? "" : ": ", last, run.log().string())};
  }

  void settle(size_t index, RunOutcome outcome) {
    if (outcome.state != RunState::kStopped) ++settled_;
    if (outcome.state == RunState::kFailed) {
      ++failed_;
      display_.message(fmt::format("{} failed: {}", runs_[index].label, outcome.reason));
    }
    outcomes_[index] = std::move(outcome);
  }

  std::vector<events::ProgressField> fields() const {
    std::vector<events::ProgressField> fields = {{"running", fmt::format("{}", running_.size())}};
    if (failed_ > 0) fields.push_back({"failed", fmt::format("{}", failed_)});
    if (interrupts_ > 0) {
      fields.push_back({"", "waiting for checkpoints"});
    } else if (!running_.empty()) {
      fields.push_back({"", runs_[running_.front().index].label});
    }
    return fields;
  }

  std::span<const SweepRun> runs_;
  size_t jobs_;
  const std::atomic<int>& interrupts_;
  const events::Display& display_;
  std::vector<RunOutcome> outcomes_;
  std::list<Child> running_;
  size_t next_ = 0;
  size_t settled_ = 0;
  size_t failed_ = 0;
  int forwarded_ = 0;
};

}  // namespace

std::vector<RunOutcome> run_sweep(std::span<const SweepRun> runs, int jobs,
                                  const std::atomic<int>& interrupts,
                                  const events::Display& display) {
  return Sweep(runs, jobs, interrupts, display).run();
}

}  // namespace thinwire::report
