// How many members a run has room for: its records list every one of them, and are limited
// (record_parts.h). A pure function.
#pragma once

#include <cstdint>

#include "thinwire/membership/options.h"
#include "thinwire/membership/run_plan.h"

namespace thinwire::membership {

// Admissions in one record; others follow in the next.
inline constexpr uint64_t kAdmittedAtOnce = 256;

// The members of a roster whose closings and openings fit into a record of
// options.max_record_bytes, whichever round it is; at least 1.
uint64_t room_for_members(const RunPlan& plan, const Options& options);

}  // namespace thinwire::membership
