// Runs many `thinwire train` processes, several at once, and survives being interrupted: what is
// finished is not run again, and what was begun goes on from its newest checkpoint.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire::report {

struct SweepRun {
  std::string label;                 // for people
  fs::path folder;                   // run.dir; its name identifies the recipe
  std::vector<std::string> command;  // program and arguments that train it
  fs::path log() const { return folder.string() + ".log"; }
};

enum class RunState { kDone, kFailed, kStopped };

struct RunOutcome {
  RunState state = RunState::kStopped;
  std::string reason;  // why it failed
};

// Trains every run that has no summary.json yet, at most `jobs` at once, showing progress on
// stderr. A failed run does not stop the others. When `interrupts` rises, nothing new is started,
// each rise is handed on to the running ones as a SIGINT, and they are waited for. The outcomes are
// in the order of the runs.
std::vector<RunOutcome> run_sweep(std::span<const SweepRun> runs, int jobs,
                                  const std::atomic<int>& interrupts);

}  // namespace thinwire::report
