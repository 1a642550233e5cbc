// What members on many hosts send (docs/hosts.md), where it differs from other transports.
#pragma once

#include <cstdint>

#include "thinwire/config/sections.h"
#include "thinwire/method/method.h"

namespace thinwire::method {

// With Sums::kAuto, what a member must receive less for the coordinator to form a sum.
inline constexpr uint64_t kMinSavedBytes = 1 << 20;

// Whether the coordinator forms the sum of so many contributions of so many bytes each. If so, a
// member that contributes receives the sum, and otherwise the contributions of the others.
bool coordinator_sums(config::Sums sums, uint64_t contributions, double bytes);

// `traffic` is what a method without clusters says for `members`. On many hosts a member sends all
// of its contribution to a sum once, and receives the sum or the contributions of all others, in
// one exchange.
Traffic hosted_traffic(Traffic traffic, config::Sums sums, int members);

}  // namespace thinwire::method
