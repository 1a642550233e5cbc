// What a coordinator's terminal shows during the run: who joins, leaves and is left out, and how
// far the run is.
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
class RunNews {
 public:
  explicit RunNews(const config::Recipe& recipe);

  // A record of the ledger, at `now`, in seconds of any clock; `earlier` as with serve::HostHooks.
  // The time left follows from the rounds that were opened and closed since.
  void record(const membership::Record& record, bool earlier, double now);
  // Says what has changed since the last call.
  void tell(const membership::State& state);

 private:
  void tell_members(const membership::State& state);

  const uint64_t steps_;
  std::vector<membership::Phase> phases_;  // as last told
  std::map<uint64_t, uint64_t> open_;      // of rounds, the step after their last one
  events::Pace pace_;
  events::Progress progress_;
};

}  // namespace thinwire::hosts
