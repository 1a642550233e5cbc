// The learning rate at a step: a pure function, shared by trainer, coordinator and planner, with
// the same bits everywhere (base/maths.h).
#pragma once

#include <cstdint>

#include "thinwire/config/schedule_section.h"

namespace thinwire::schedule {

// step in [0, steps]; `steps` itself is asked for when a run has taken all steps, and used by none.
// Warmup: peak * (step + 1) / warmup. Then by kind, with progress
// p = (step - warmup) / (steps - warmup) and final = peak * final_ratio:
//   cosine    final + (peak - final) * (1 + cos(pi * p)) / 2
//   linear    peak + (final - peak) * p
//   constant  peak
//   wsd       peak, then over the last `decay` steps linearly to final:
//             peak + (final - peak) * (step - (steps - decay) + 1) / decay
double learning_rate(const config::ScheduleSection& schedule, double peak, int64_t steps,
                     int64_t step);

}  // namespace thinwire::schedule
