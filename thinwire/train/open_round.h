// The round of a training step.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/round.h"
#include "thinwire/config/recipe.h"

namespace thinwire::train {

// The part of [0, count) that member `index` of `members` takes.
RowRange share(uint64_t count, int index, int members);

// The part of [0, count) that member `id` takes, where the roster divides it evenly; nothing where
// the roster does not have it.
RowRange share_of(const Round& round, int id, uint64_t count);

// A function of the recipe and of the members' measured speeds in rows a second (share_rows;
// none: shares are even): which rows each of `members` takes at `step`, at what rate, and whether
// members exchange after it.
Round open_round(const config::Recipe& recipe, uint64_t run, int members, int64_t step,
                 std::span<const float> speeds = {});

}  // namespace thinwire::train
