// What rules of sync.aggregate other than the mean (docs/aggregation.md) change about a method's
// exchanges: a dense sum cannot be formed by the transport, so each member receives all
// contributions.
#pragma once

#include <cstdint>

#include "thinwire/base/wire.h"
#include "thinwire/method/method.h"
#include "thinwire/method/operations.h"

namespace thinwire::config {
struct Recipe;
}

namespace thinwire::method {

// Throws UsageError if the rule contradicts the rest of the recipe.
void check_aggregate(const config::Recipe& recipe);

// Whether contributions to dense sums of `method`, which may be the method within clusters, are
// gathered instead of being summed by the transport.
bool gathers_sums(const Method& method, const config::Recipe& recipe);

// How such sums are formed.
Collective collective_of_sums(const Method& method, const config::Recipe& recipe);

// What all `members` >= 1 together send and receive for a sum of `bytes` in its wire format, and
// the number of dependent exchanges.
Piece sum_traffic(bool gathered, double bytes, int members);

// Bytes that a transport holds for a sum of `elements` values: the fp32 sum, or what all `members`
// contribute.
double sum_memory(bool gathered, double elements, WireType wire, int64_t members);

}  // namespace thinwire::method
