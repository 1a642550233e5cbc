#include "thinwire/schedule/learning_rate.h"

#include "thinwire/base/maths.h"

namespace thinwire::schedule {
namespace {

double after_warmup(const config::ScheduleSection& schedule, double peak, int64_t steps,
                    int64_t step) {
  const double last = peak * schedule.final_ratio;
  const double progress =
      static_cast<double>(step - schedule.warmup) / static_cast<double>(steps - schedule.warmup);
  const int64_t decay_start = steps - schedule.decay;
  switch (schedule.kind) {
    case config::ScheduleKind::kCosine:
      return last + (peak - last) * (1 + maths::cos_pi(progress)) / 2;
    case config::ScheduleKind::kLinear:
      return peak + (last - peak) * progress;
    case config::ScheduleKind::kConstant:
      return peak;
    case config::ScheduleKind::kWsd:
      if (step < decay_start) return peak;
      return peak + (last - peak) * static_cast<double>(step - decay_start + 1) /
                        static_cast<double>(schedule.decay);
  }
  return peak;
}

}  // namespace

double learning_rate(const config::ScheduleSection& schedule, double peak, int64_t steps,
                     int64_t step) {
  if (step < schedule.warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup);
  }
  return after_warmup(schedule, peak, steps, step);
}

StepRates step_rates(const config::ScheduleSection& schedule, double peak, const Rounds& rounds,
                     int64_t step) {
  const auto rate = [&](int64_t at) { return learning_rate(schedule, peak, rounds.steps, at); };
  double sum = 0;
  for (int64_t at = rounds.first_step(step); at <= step; ++at) sum += rate(at);
  return {static_cast<float>(rate(step)), static_cast<float>(sum)};
}

}  // namespace thinwire::schedule
