// What a coordinator's terminal shows during the run: members that join, leave or are left out, and
// the progress of the run.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/events/pace.h"
#include "thinwire/events/progress.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"

namespace thinwire::hosts {

// Used by one thread.
class RunDisplay {
 public:
  explicit RunDisplay(const config::Recipe& recipe);

  // A record of the ledger, at `now`, in seconds of any clock; `earlier` as with serve::HostHooks.
  // The time left is estimated from rounds opened and closed since this coordinator's first
  // decision.
  void record(const membership::Record& record, bool earlier, double now);
  // Shows what has changed since the last call.
  void show(const membership::State& state);

 private:
  void show_members(const membership::State& state);

  const uint64_t steps_;
  std::vector<membership::Phase> phases_;  // as last shown
  std::map<uint64_t, uint64_t> open_;      // by round, the step after its last one
  events::Pace pace_;
  events::Progress progress_;
};

}  // namespace thinwire::hosts
