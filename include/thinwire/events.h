// What a run tells while it trains: its steps, evaluations, checkpoints and messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace thinwire::events {

// Seconds of one step by phase, e.g. {"data", .1}, {"compute", .7}, {"exchange", .2}.
using PhaseSeconds = std::vector<std::pair<std::string, double>>;

// For pairs of answers (recipe table [preference]): means over the pairs. An answer's reward is
// beta times the difference between its log-likelihoods with the model trained and the model at the
// start.
struct Rewards {
  double accuracy = 0;  // share of pairs whose chosen answer has the larger reward
  double margin = 0;    // chosen - rejected
  double chosen = 0;
  double rejected = 0;
};

// One optimizer step over all workers. In every event `step` counts completed steps, the event's
// own included.
struct StepEvent {
  int64_t step = 0;
  double loss = 0;  // mean over the step's tokens, nats; of pairs of answers, over the pairs
  double learning_rate = 0;
  double gradient_norm = 0;  // before clipping
  int64_t tokens = 0;        // of this step, all workers together
  double tokens_per_second = 0;
  double model_flops_per_second = 0;
  double bytes_sent = 0;  // in this step, by one worker (mean over the workers)
  double bytes_received = 0;
  PhaseSeconds seconds;
  double time = 0;  // seconds since 1970, when it was written; set only by reading
  std::optional<Rewards> rewards = {};  // only of pairs of answers
};

// The loss on one named validation set after `step` steps, or a score: a task's metric, named
// "task.metric".
struct EvalEvent {
  int64_t step = 0;
  std::string name;
  double loss = 0;  // nats per token; of a score: its value
  double time = 0;  // as in StepEvent
  bool score = false;
};

// An event described by text alone: resumed, ended early, replica healed.
struct MessageEvent {
  int64_t step = 0;
  std::string text;
};

// A checkpoint is complete and on disk.
struct CheckpointEvent {
  int64_t step = 0;
  std::string folder;
};

}  // namespace thinwire::events
