// Trains by a recipe: the library behind `thinwire train`.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "thinwire/config/recipe.h"
#include "thinwire/events/summary.h"

namespace thinwire::launch {

struct TrainOptions {
  bool restart = false;                     // begin anew even if the run folder holds a run
  const std::atomic<bool>* stop = nullptr;  // set from outside: checkpoint, then end
  // Called once everything is read and training is about to begin: from here on there is something
  // to lose, and `stop` is looked at. May be empty.
  std::function<void()> on_start = {};
};

// kElsewhere: this is a rank of an MPI job that does not lead, so others have the results.
enum class Outcome { kFinished, kStopped, kAlreadyFinished, kElsewhere };

struct TrainResult {
  Outcome outcome = Outcome::kFinished;
  int64_t step = 0;         // completed steps
  events::Summary summary;  // empty when stopped
};

// Trains with recipe.train.workers threads in this process, or as one rank of an MPI job
// (train.launcher), resuming from the run folder's newest checkpoint if there is one. A run stopped
// at any step and resumed gives the same bits as one never stopped. Throws UsageError for recipes
// that do not fit the machine, the data or the folder, and Error for everything that fails while it
// trains; checkpoints written before stay usable.
TrainResult train(config::Recipe recipe, const TrainOptions& options);

}  // namespace thinwire::launch
