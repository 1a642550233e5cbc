// What follows from the number of a step alone: the learning rate, the rounds of methods with local
// updates, the fragments that are due, and how rows are divided. Pure functions, shared by trainer,
// coordinator and planner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/config/sections.h"

namespace thinwire::schedule {

// The learning rate at a step: a pure function, shared by trainer, coordinator and planner, with
// the same bits everywhere (base/maths.h).

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

// Which training steps end with a synchronisation: a pure function, shared by trainer, coordinator
// and planner.

// A run of `steps` training steps, counted from 0, in rounds of `every` steps. The last round is
// shorter if they do not divide evenly.
struct Rounds {
  int64_t steps = 1;
  int64_t every = 1;

  int64_t count() const { return (steps + every - 1) / every; }
  int64_t number(int64_t step) const { return step / every; }
  int64_t first_step(int64_t step) const { return step / every * every; }
  // Whether members exchange after `step`.
  bool closes(int64_t step) const { return (step + 1) % every == 0 || step + 1 == steps; }
  // The step that closed the round before the one of `step`; -1 in the first round.
  int64_t previous_close(int64_t step) const { return first_step(step) - 1; }
};

// The training steps after which fragments of the weights are sent: a pure function, shared by
// trainer, coordinator and planner (Douillard et al. 2025, Streaming DiLoCo, arXiv 2501.18512; with
// one fragment the schedule of DiLoCo, arXiv 2311.08105).

// A run of `steps` training steps in which each of `fragments` fragments is sent every `every`
// steps, evenly staggered, and all of them after the last step. Step numbers count completed steps,
// from 1; sends of a fragment are numbered from 1.
struct FragmentSchedule {
  int64_t steps = 1;
  int64_t every = 1;      // H
  int64_t fragments = 1;  // P

  // The first step after which `fragment` is sent, if the run is that long.
  int64_t first(int64_t fragment) const {
    const int64_t at = (fragment + 1) * every / fragments % every;
    return at == 0 ? every : at;
  }
  // How often `fragment` has been sent once `completed` steps are done.
  int64_t sent(int64_t fragment, int64_t completed) const {
    const int64_t since = completed - first(fragment);
    const int64_t planned = since < 0 ? 0 : since / every + 1;
    const bool extra = completed == steps && (since < 0 || since % every != 0);
    return planned + (extra ? 1 : 0);
  }
  bool sends(int64_t fragment, int64_t completed) const {
    return sent(fragment, completed) > sent(fragment, completed - 1);
  }
  // The step after which `fragment` is sent for the `number`-th time, 1 <= number <= sent(fragment,
  // steps).
  int64_t sent_after(int64_t fragment, int64_t number) const {
    return std::min(first(fragment) + (number - 1) * every, steps);
  }
};

// How the rows of a training step are divided among members of unequal speed: a pure function with
// a fixed graph of operations, the same on every machine.

// Where the `index`-th of `members` parts of `count` begins, divided as evenly as possible; it ends
// where the next part begins.
constexpr uint64_t even_share_begin(uint64_t count, uint64_t index, uint64_t members) {
  return count * index / members;
}

// Rows of each member, which add up to `batch`: those with `present[m]` get at least one, the
// others none. `speeds[m]` is in rows per second; for an unknown speed (0) the mean of the known
// ones is used. With no speeds at all, or none known, the shares are equal. Otherwise the last
// member to finish finishes as early as possible; at equal times the first member gets the row.
// Needs at least as many rows as present members.
std::vector<uint64_t> share_rows(uint64_t batch, std::span<const uint8_t> present,
                                 std::span<const float> speeds);

}  // namespace thinwire::schedule
