// The training steps after which fragments of the weights are sent: a pure function, shared by
// trainer, coordinator and planner (Douillard et al. 2025, Streaming DiLoCo, arXiv 2501.18512; with
// one fragment the schedule of DiLoCo, arXiv 2311.08105).
#pragma once

#include <algorithm>
#include <cstdint>

namespace thinwire::schedule {

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

}  // namespace thinwire::schedule
