// Which training steps end with a synchronisation: a pure function, shared by trainer, coordinator
// and planner.
#pragma once

#include <cstdint>

namespace thinwire::schedule {

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

}  // namespace thinwire::schedule
