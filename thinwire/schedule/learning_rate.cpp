#include "thinwire/base/maths.h"
#include "thinwire/schedule/schedule.h"

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
  if (schedule.warmup == steps) return peak;
  return after_warmup(schedule, peak, steps, step);
}

}  // namespace thinwire::schedule
