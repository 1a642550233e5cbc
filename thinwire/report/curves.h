// A run's curves for TensorBoard. docs/formats.md lists the tags.
#pragma once

#include <cstdint>

#include "thinwire/base/file.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/tensorboard.h"

namespace thinwire::report {

// Used by one thread. All functions throw Error when the disk is full.
class Curves {
 public:
  // Begins a new file in `folder`, which replaces what earlier files say about steps after
  // `resume_step`. Steps up to there that they lack (because of an interruption, or because there
  // are no files) are written from `history`, so that TensorBoard shows every step once.
  Curves(const fs::path& folder, int64_t resume_step, const events::RunHistory& history);

  void add(const events::StepEvent& event, double mean_loss);
  void add(const events::EvalEvent& event);
  // Returns when everything is on disk.
  void sync() { writer_.sync(); }

 private:
  const int64_t first_step_;  // of the new file
  events::TensorBoardWriter writer_;
};

}  // namespace thinwire::report
