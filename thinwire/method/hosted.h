// What members on many hosts send (docs/hosts.md), where it differs from other transports.
#pragma once

#include "thinwire/method/method.h"

namespace thinwire::method {

// `traffic` is what a method without clusters says for `members`. On many hosts a member sends all
// of its contribution to a sum once, receives those of all others, and forms the sum itself, in one
// exchange.
Traffic hosted_traffic(Traffic traffic, int members);

}  // namespace thinwire::method
