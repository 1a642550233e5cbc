// What the holder of a token may request from a run without becoming a member.
#pragma once

#include <string>
#include <vector>

#include "thinwire/hosts/access.h"
#include "thinwire/hosts/run_status.h"

namespace thinwire::hosts {

// Both throw Error if the run cannot be reached or its coordinator does not answer. A single-use
// token is not used up.

RunStatus ask_status(const Access& access);

// The checks of `thinwire doctor` (self_check.h), as lines to print. `overrides` as for joining;
// `memory_bytes`: most memory that the run may use here; 0: no limit. Throws UsageError if the run
// does not fit this machine.
std::vector<std::string> diagnose(const Access& access, const std::vector<std::string>& overrides,
                                  double memory_bytes);

}  // namespace thinwire::hosts
