// Finished runs side by side, as `thinwire compare` shows them. Target thinwire::run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

struct FinishedRun {
  std::filesystem::path folder;
  std::string name;    // run.name
  std::string method;  // sync.method
  int64_t workers = 0;
  int64_t steps = 0;
  int64_t tokens = 0;  // trained on, over all workers
  int64_t parameters = 0;
  double train_loss = 0;                      // nats per token, mean of the last steps
  std::map<std::string, double> losses = {};  // by validation set, nats per token
  std::map<std::string, double> scores = {};  // of tasks, by "task.metric"
  double bytes_sent_per_step = 0;             // by one worker
  double bytes_received_per_step = 0;
  double seconds = 0;  // of training
  double tokens_per_second = 0;
  std::string digest = {};  // of the weights: 16 hexadecimal digits
};

struct FoundRuns {
  std::vector<FinishedRun> finished;
  std::vector<std::string> left_out;  // what is no finished run, and why: a sentence each
};

// Sorts folders, such as all those in one, into finished runs and everything else. Throws Error for
// a path that does not exist.
FoundRuns find_runs(const std::vector<std::filesystem::path>& folders);

// What the training loss of a run is shown over.
enum class CurveAxis {
  kSteps,
  kTokens,  // of all workers
  kBytes,   // sent by a worker, mean over the workers
};

struct LossCurve {
  std::vector<double> at;      // steps, tokens or bytes
  std::vector<double> losses;  // nats; as many
};

// The training loss of a run, smoothed over about 2 % of its steps. Throws Error as
// read_run_history (thinwire/run_history.h) does.
LossCurve loss_curve(const std::filesystem::path& run_folder, CurveAxis axis = CurveAxis::kSteps);

}  // namespace thinwire
