// How fast this machine takes training steps: the step of one worker of a recipe, alone, without
// token shards, other workers or a run folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/bench/machine.h"
#include "thinwire/config/recipe.h"
#include "thinwire/model/model.h"

namespace thinwire::bench {

struct SpeedOptions {
  int64_t steps = 5;   // that are timed
  int64_t warmup = 2;  // before them
  // Batches of little-endian int32 tokens, each the worker's rows of sequence + 1, used in turn;
  // empty: one batch at random.
  fs::path tokens;
  // May be empty; called before each step with how many of all, warmup included, are done.
  std::function<void(int64_t done, int64_t all)> progress = {};
};

// A part of a step: how long it takes, and what it has to do at least.
struct TimedPart {
  std::string_view name;
  double seconds = 0;  // mean of the timed steps
  double flops = 0;    // of its matrix products
  double bytes = 0;    // read and written in its passes over memory
  // The longer of the products at the machine's speed for `precision` and the passes at the speed
  // of copying.
  double limit_seconds(const MachineSpeed& machine, model::Precision precision) const;
};

struct SpeedResult {
  int64_t params = 0;
  int64_t tokens_per_step = 0;
  double flops_per_token = 0;    // of the matrix products, forward and backward
  std::vector<double> losses;    // mean in nats, a step, warmup included
  std::vector<double> seconds;   // a timed step
  std::vector<TimedPart> parts;  // that a step consists of; empty where a device computes
  model::Precision precision = model::Precision::kFp32;
  uint64_t loaded_bytes = 0;  // resident once the parameters are loaded, nothing else
  uint64_t peak_bytes = 0;    // resident at most

  double median_seconds() const;
  double tokens_per_second() const;
};

// A step is gradients of the worker's share of train.batch, clipping, optimizer or the method's own
// update with one member, as `thinwire train` takes it. Where model.vocab is not set, the
// vocabulary in data.dir says how large it is. Throws UsageError when there is none and when the
// step cannot fit into memory, Error when the token file does not hold whole batches.
SpeedResult measure_speed(config::Recipe recipe, const SpeedOptions& options);

}  // namespace thinwire::bench
