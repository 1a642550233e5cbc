// How fast this machine takes training steps: the steps of a single worker of a recipe, without
// token shards, other workers or a run folder.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/model/model.h"

namespace thinwire::bench {

// The best speeds of this machine's CPU that limit training steps: matrix products and memory.
struct MachineSpeed {
  int threads = 0;
  double gemm_fp32 = 0;  // FLOP/s of a large product, 2 m n k over its time
  double gemm_bf16 = 0;  // bf16 operands, fp32 result
  double read = 0;       // bytes/s read from memory far larger than the caches
  double copy = 0;       // bytes/s read plus bytes/s written by a plain copy
};

// Each figure is the best of many repetitions within `seconds`, with `thread_count` threads, using
// the functions that training steps call. Needs 0.5 GB of memory meanwhile.
MachineSpeed measure_machine(int thread_count, double seconds = 0.5);

struct SpeedOptions {
  int64_t steps = 5;   // timed steps
  int64_t warmup = 2;  // untimed steps before them
  // File of batches of little-endian int32 tokens, used one after another; a batch is the worker's
  // rows of sequence + 1 tokens. Empty: one random batch.
  fs::path tokens;
  // May be empty; called before each step with the number of steps done and of all steps, including
  // the warmup.
  std::function<void(int64_t done, int64_t all)> progress = {};
  events::MessageSink message = events::tell_nobody;  // told what the user should know
};

// A part of a step: how long it takes, and the least work that it has to do.
struct TimedPart {
  std::string_view name;
  double seconds = 0;  // mean of the timed steps
  double flops = 0;    // of its matrix products
  double bytes = 0;    // read and written in its passes over memory
  // The longer of two times: the products at the machine's speed for `precision`, and the passes at
  // its copying speed.
  double limit_seconds(const MachineSpeed& machine, Precision precision) const;
};

// Bytes of a part of a step's memory, as method::memory_parts predicts it and as the step holds it.
struct HeldPart {
  std::string_view name;
  double predicted = 0;
  double held = 0;
};

struct SpeedResult {
  int64_t params = 0;
  int64_t tokens_per_step = 0;
  double flops_per_token = 0;    // of the matrix products, forward and backward
  std::vector<double> losses;    // of each step, mean in nats, warmup included
  std::vector<double> seconds;   // of each timed step
  std::vector<TimedPart> parts;  // of a step; empty where a device computes
  Precision precision = Precision::kFp32;
  uint64_t loaded_bytes = 0;     // resident memory with only the parameters loaded
  uint64_t peak_bytes = 0;       // largest resident memory
  uint64_t program_bytes = 0;    // resident memory before anything is loaded
  std::vector<HeldPart> memory;  // without the program; empty where a device computes
  double predicted_bytes = 0;    // all of it, the program included

  double median_seconds() const;
  double tokens_per_second() const;
};

// A step is as in `thinwire train`: the gradients of the worker's share of train.batch, clipping,
// and the optimizer or the method's own update with one member. If model.vocab is not set, the
// vocabulary in data.dir gives its size. Throws UsageError when there is none or when the step
// cannot fit into memory, Error when the token file does not hold whole batches.
SpeedResult measure_speed(config::Recipe recipe, const SpeedOptions& options);

}  // namespace thinwire::bench
