// Finished runs with DisTrO, each compared with the best one with all-reduce on the same tokens:
// the gaps to which a law of coverage (coverage.h) is fitted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace thinwire::plan {

struct LossOfRun {
  std::string name;   // to be shown
  std::string setup;  // the same for runs of the same model, text, batch and seed
  int64_t steps = 0;
  double coverage = 0;  // 0: by all-reduce
  double loss = 0;      // nats per token
};

struct ComparedRun {
  LossOfRun run;
  double gap = 0;  // nats by which its loss is above that of the best run by all-reduce
  // The steps after which all-reduce has this loss, interpolated in the logarithm of the steps
  // between the best runs of each length; nullopt outside their losses.
  std::optional<double> all_reduce_steps;
  bool best = false;  // has the lowest loss of the runs with its setup, steps and coverage
};

// The runs with DisTrO, in their order. Throws UsageError naming the run if none with all-reduce
// has its setup and steps.
std::vector<ComparedRun> compare_with_all_reduce(std::span<const LossOfRun> runs);

}  // namespace thinwire::plan
