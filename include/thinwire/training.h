// Trains a model as a recipe says, as `thinwire train` does. Target thinwire::run.
//
// Nothing is printed: callbacks hear what happens, and the run's folder (run.dir) holds its log,
// checkpoints and summary, which all commands of thinwire read.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "thinwire/callbacks.h"
#include "thinwire/own_model.h"
#include "thinwire/recipe.h"

namespace thinwire {

struct TrainingOptions : RunCallbacks {
  // Set from anywhere, it ends the run after a checkpoint from which the next call goes on. May be
  // null.
  const std::atomic<bool>* stop = nullptr;
  // Starts over even if the run's folder holds a run.
  bool restart = false;
  // For recipes with model.architecture = "external"; else null.
  const OwnModel* own_model = nullptr;
};

struct TrainingResult {
  int64_t steps = 0;                  // completed
  bool finished = false;              // false: stopped
  std::filesystem::path folder = {};  // run.dir
  // Set for a finished run.
  double train_loss = 0;                      // nats per token, mean of the last steps
  std::map<std::string, double> losses = {};  // by validation set
  double bytes_sent_per_step = 0;             // by one worker
  std::string digest = {};                    // of the weights: 16 hexadecimal digits
};

// Trains with train.workers threads, from data that `thinwire prepare` wrote, and resumes the run
// in run.dir if there is one; a run stopped at any step and resumed gives the same bits as one
// never stopped. A run that is finished already trains nothing and gives its results. Throws
// UsageError for recipes that do not fit the machine, the data or the folder, and Error for
// anything that fails during training; checkpoints written before stay usable.
TrainingResult train_model(const Recipe& recipe, const TrainingOptions& options = {});

}  // namespace thinwire
