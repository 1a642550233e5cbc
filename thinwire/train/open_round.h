// The round of a training step.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/round.h"
#include "thinwire/config/recipe.h"

namespace thinwire::train {

// The part of [0, count) for member `index` of `members`.
RowRange share(uint64_t count, int index, int members);

// The part of [0, count) that member `id` takes if the roster divides it evenly; empty if the
// roster does not have it.
RowRange share_of(const Round& round, int id, uint64_t count);

// Which rows each of `members` takes at `step`, the learning rate, and whether members exchange
// after it: a function of the recipe and of the members' measured speeds in rows per second
// (share_rows; none: shares are equal).
Round open_round(const config::Recipe& recipe, uint64_t run, int members, int64_t step,
                 std::span<const float> speeds = {});

}  // namespace thinwire::train
