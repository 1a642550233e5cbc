// Whether this machine can take part in a run of many hosts, as `thinwire doctor` says. Target
// thinwire::run.
#pragma once

#include <string>
#include <vector>

#include "thinwire/error.h"

namespace thinwire {

// Measures the line to the run, and a few training steps of its recipe; that takes seconds, or
// minutes for a large model. Returns sentences about link, memory, cores and speed, and about what
// stands in the way, if anything does. `address` and `token` are those that members join with; a
// token for one use is not used up. `overrides`: as JoiningOptions (thinwire/joining.h).
// `memory_bytes`: the most that the run may use here; 0: what the machine has. Throws UsageError if
// the run does not fit this machine or something is malformed, and Error if the run cannot be
// reached.
std::vector<std::string> check_machine(const std::string& address, const std::string& token,
                                       const std::vector<std::string>& overrides = {},
                                       double memory_bytes = 0);

}  // namespace thinwire
