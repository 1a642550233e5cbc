// Runs many `thinwire train` processes, several at once, and survives interruptions: finished runs
// are not repeated, and unfinished ones resume from their newest checkpoint.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"

namespace thinwire::report {

struct SweepRun {
  std::string label;                 // shown in messages
  fs::path folder;                   // run.dir; its name identifies the recipe
  std::vector<std::string> command;  // program and arguments
  fs::path log() const { return folder.string() + ".log"; }
};

enum class RunState { kDone, kFailed, kStopped };

struct RunOutcome {
  RunState state = RunState::kStopped;
  std::string reason;  // why it failed
};

// Trains every run that has no summary.json yet, at most `jobs` at once, showing progress on
// stderr. A failed run does not stop the others. When `interrupts` increases, no more runs are
// started, each increase is passed on to the running ones as a SIGINT, and it waits for them. The
// outcomes are in the order of the runs.
std::vector<RunOutcome> run_sweep(std::span<const SweepRun> runs, int jobs,
                                  const std::atomic<int>& interrupts);

}  // namespace thinwire::report
