// What a coordinator's terminal says while the run goes on: who comes, goes and is left out, and
// how far it is.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/config/recipe.h"
#include "thinwire/events/progress.h"
#include "thinwire/membership/state.h"

namespace thinwire::hosts {

// Used by one thread.
class RunNews {
 public:
  explicit RunNews(const config::Recipe& recipe);

  // Says what has changed since the last call.
  void tell(const membership::State& state);

 private:
  void tell_members(const membership::State& state);

  const uint64_t steps_;
  std::vector<membership::Phase> phases_;  // as last told
  events::Progress progress_;
};

}  // namespace thinwire::hosts
