#include "thinwire/plan/utilization.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

// Rounds until the waits repeat, and rounds measured after them.
constexpr int kSettlingRounds = 3;
constexpr int kMeasuredRounds = 3;
constexpr double kMinRate = 1e-3;  // where the search for a bandwidth begins, bit/s
constexpr double kSearchPrecision = 1e-4;

class Simulation {
 public:
  Simulation(const SimulatedModel& model, const SyncSchedule& schedule, double bit_s,
             const SimulationAssumptions& assumptions)
      : model_(model),
        schedule_(schedule),
        delay_s_(assumptions.delay_s),
        forward_s_(model.step_seconds * assumptions.forward_share / model.layers),
        backward_s_(model.step_seconds * (1 - assumptions.forward_share) / model.layers),
        transfer_s_(model.parameters / model.layers * schedule.bits * assumptions.payload_factor /
                    bit_s),
        fragments_(schedule.fragment_layers == 0
                       ? 1
                       : (model.layers + schedule.fragment_layers - 1) / schedule.fragment_layers),
        exchanges_(static_cast<size_t>(model.layers)) {}

  double utilization() {
    const int every = schedule_.sync_every;
    run_until(kSettlingRounds * every);
    const double start = now_;
    run_until((kSettlingRounds + kMeasuredRounds) * every);
    // A backlog within the overlap may still be growing; in the long run no round is faster than
    // its bytes.
    const double round_s = every * model_.step_seconds;
    return std::min(
        {1.0, kMeasuredRounds * round_s / (now_ - start), round_s / (transfer_s_ * model_.layers)});
  }

 private:
  // An exchange of one layer in flight, and what must wait for it.
  struct Exchange {
    int needed_at = -1;  // step; -1: none
    double arrives = 0;
  };

  void run_until(int steps) {
    for (; step_ < steps; ++step_) {
      forward();
      backward();
    }
  }

  void forward() {
    for (auto& layer : exchanges_) {
      for (Exchange& exchange : layer) {
        if (exchange.needed_at != step_) continue;
        now_ = std::max(now_, exchange.arrives);
        exchange.needed_at = -1;
      }
      now_ += forward_s_;
    }
  }

  void backward() {
    const bool at_once = schedule_.wait == Wait::kAtOnce;
    for (int layer = model_.layers - 1; layer >= 0; --layer) {
      now_ += backward_s_;
      if (syncs(layer) && !at_once) send(layer);
    }
    for (int layer = model_.layers - 1; at_once && layer >= 0; --layer) {
      if (syncs(layer)) send(layer);
    }
    if (schedule_.wait != Wait::kNextUse && link_used_) now_ = std::max(now_, arrival());
    link_used_ = false;
  }

  bool syncs(int layer) const {
    const int64_t fragment = layer % fragments_;
    const auto offset = static_cast<int>(fragment * schedule_.sync_every / fragments_);
    return step_ % schedule_.sync_every == offset;
  }

  void send(int layer) {
    link_free_ = std::max(link_free_, now_) + transfer_s_;
    link_used_ = true;
    if (schedule_.wait != Wait::kNextUse) return;
    // With an overlap of H steps the next exchange departs before this one is needed.
    const int round = step_ / schedule_.sync_every;
    exchanges_[static_cast<size_t>(layer)][round % 2] = {step_ + 1 + schedule_.overlap_steps,
                                                         arrival()};
  }

  double arrival() const { return link_free_ + delay_s_; }

  const SimulatedModel& model_;
  const SyncSchedule& schedule_;
  double delay_s_;
  double forward_s_;  // of one layer
  double backward_s_;
  double transfer_s_;
  int fragments_;
  std::vector<std::array<Exchange, 2>> exchanges_;
  int step_ = 0;
  double now_ = 0;
  double link_free_ = 0;
  bool link_used_ = false;  // in this step
};

void check_target(double target) {
  if (!(target > 0 && target < 1)) {
    throw UsageError(fmt::format("a utilisation must be > 0 and < 1, got {}", target));
  }
}

SyncSchedule streaming(std::string name, double bits, int sync_every, int overlap_steps) {
  return {std::move(name), bits, sync_every, 3, Wait::kNextUse, overlap_steps};
}

}  // namespace

void check_model(const SimulatedModel& model) {
  if (!(model.parameters > 0)) {
    throw UsageError(fmt::format("parameters must be > 0, got {}", model.parameters));
  }
  if (model.layers < 1) throw UsageError(fmt::format("layers must be >= 1, got {}", model.layers));
  if (!(model.step_seconds > 0)) {
    throw UsageError(fmt::format("step seconds must be > 0, got {}", model.step_seconds));
  }
}

double utilization(const SimulatedModel& model, const SyncSchedule& schedule, double bit_s,
                   const SimulationAssumptions& assumptions) {
  return Simulation(model, schedule, bit_s, assumptions).utilization();
}

double required_bandwidth(const SimulatedModel& model, const SyncSchedule& schedule, double target,
                          const SimulationAssumptions& assumptions) {
  check_target(target);
  const auto enough = [&](double bit_s) {
    return utilization(model, schedule, bit_s, assumptions) >= target;
  };
  double low = std::max(kMinRate, min_bandwidth(model, schedule, target, assumptions) / 2);
  double high = 2 * low;
  for (; !enough(high); high *= 2) {
    low = high;
    if (std::isinf(high)) return high;  // the delay alone takes longer
  }
  while (high / low > 1 + kSearchPrecision) {
    const double middle = std::sqrt(low * high);
    (enough(middle) ? high : low) = middle;
  }
  return high;
}

double min_bandwidth(const SimulatedModel& model, const SyncSchedule& schedule, double target,
                     const SimulationAssumptions& assumptions) {
  check_target(target);
  return model.parameters * schedule.bits * assumptions.payload_factor * target /
         (schedule.sync_every * model.step_seconds);
}

std::vector<SimulatedModel> eager_models() {
  return {{"1B", 1e9, 24, 0.1}, {"10B", 10e9, 48, 0.8}, {"100B", 100e9, 108, 4.9}};
}

std::vector<SyncSchedule> eager_schedules() {
  return {
      {"Data-Parallel", 16, 1, 0, Wait::kStepEnd, 0},
      streaming("Streaming DiLoCo", 16, 100, 0),
      streaming("1-inner-step FP4, H 30", 4, 30, 1),
      streaming("1-inner-step FP4, H 100", 4, 100, 1),
      streaming("1-outer-step FP4, H 30", 4, 30, 30),
      streaming("1-outer-step FP4, H 100", 4, 100, 100),
  };
}

SyncSchedule vanilla_diloco(int sync_every) {
  return {fmt::format("DiLoCo, H {}", sync_every), 16, sync_every, 0, Wait::kAtOnce, 0};
}

}  // namespace thinwire::plan
