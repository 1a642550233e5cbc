#include "thinwire/method/aggregate.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {

void check_aggregate(const config::Recipe& recipe) {
  const config::SyncSection& sync = recipe.sync;
  const config::SyncSection defaults;
  if (sync.aggregate != Aggregate::kTrimmedMean && sync.trim != defaults.trim) {
    throw UsageError(fmt::format("[sync] trim = {} needs aggregate = \"trimmed_mean\", got \"{}\"",
                                 sync.trim, name_of(sync.aggregate)));
  }
}

bool gathers_sums(const Method& method, const config::Recipe& recipe) {
  return recipe.sync.aggregation().robust() && method.name == recipe.sync.method;
}

Collective collective_of_sums(const Method& method, const config::Recipe& recipe) {
  return gathers_sums(method, recipe) ? Collective::kGather : Collective::kReduce;
}

Piece sum_traffic(bool gathered, double bytes, int members) {
  if (members == 1) return {.round_trips = 0};
  if (gathered) return {bytes * members, bytes * members * (members - 1), 1};
  const double all = 2 * bytes * (members - 1);
  return {all, all, 2};
}

double sum_memory(bool gathered, double elements, WireType wire, int64_t members) {
  if (!gathered) return sizeof(float) * elements;
  return static_cast<double>(wire_bytes(wire, static_cast<uint64_t>(elements))) *
         static_cast<double>(members);
}

}  // namespace thinwire::method
