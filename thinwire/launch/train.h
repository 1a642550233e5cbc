// Trains a model as a recipe says: the library behind `thinwire train`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/train/own_learner.h"

namespace thinwire::launch {

struct TrainOptions {
  bool restart = false;                     // start over even if the run folder holds a run
  const std::atomic<bool>* stop = nullptr;  // set from outside: checkpoint, then end
  // Called once everything is read and training is about to begin: from here on there is work to
  // lose, and `stop` is checked. May be empty.
  std::function<void()> on_start = {};
  // Called with the resolved recipe and the steps completed before, once it is known that there is
  // something to train and before anything is recorded, in the process that records the run. The
  // listener that it returns receives all that is recorded and must outlive the call of train().
  // May be empty.
  std::function<events::Listener*(const config::Recipe& recipe, int64_t first_step)> listen = {};
  events::Display display = {};
  // The program's own model, for recipes with model.architecture = "external"; else null.
  const train::OwnModel* own_model = nullptr;
};

// kElsewhere: this is a rank of an MPI job that does not lead; the leader has the results.
enum class Outcome { kFinished, kStopped, kAlreadyFinished, kElsewhere };

struct TrainResult {
  Outcome outcome = Outcome::kFinished;
  int64_t step = 0;         // completed steps
  events::Summary summary;  // empty when stopped
};

// Trains with recipe.train.workers threads in this process, or as one rank of an MPI job
// (train.launcher), resuming from the run folder's newest checkpoint if there is one. A run stopped
// at any step and resumed gives the same bits as one never stopped. Throws UsageError for recipes
// that do not fit the machine, the data or the folder, and Error for anything that fails during
// training; checkpoints written before stay usable.
TrainResult train(config::Recipe recipe, const TrainOptions& options);

}  // namespace thinwire::launch
