// The learning rate at a step: a pure function, shared by trainer, coordinator and planner, with
// the same bits everywhere (base/maths.h).
#pragma once

#include <cstdint>

#include "thinwire/config/schedule_section.h"
#include "thinwire/schedule/rounds.h"

namespace thinwire::schedule {

// step in [0, steps). Warmup: peak * (step + 1) / warmup. Then by kind, with progress
// p = (step - warmup) / (steps - warmup) and final = peak * final_ratio:
//   cosine    final + (peak - final) * (1 + cos(pi * p)) / 2
//   linear    peak + (final - peak) * p
//   constant  peak
//   wsd       peak, then over the last `decay` steps linearly to final:
//             peak + (final - peak) * (step - (steps - decay) + 1) / decay
double learning_rate(const config::ScheduleSection& schedule, double peak, int64_t steps,
                     int64_t step);

// The learning rate of a training step, and the sum of its round's learning rates so far, including
// this step's, summed in double in the order of the steps. Their exact bits count (base/round.h).
struct StepRates {
  float learning_rate = 0;
  float round_rate = 0;
  bool operator==(const StepRates&) const = default;
};
StepRates step_rates(const config::ScheduleSection& schedule, double peak, const Rounds& rounds,
                     int64_t step);

}  // namespace thinwire::schedule
