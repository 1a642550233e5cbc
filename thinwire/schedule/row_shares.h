// How the rows of a training step are divided among members of unequal speed: a pure function with
// a fixed graph of operations, the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::schedule {

// The `index`-th of `members` parts of `count`, as even as can be: where it begins, and where the
// next one does.
constexpr uint64_t even_share_begin(uint64_t count, uint64_t index, uint64_t members) {
  return count * index / members;
}

// Rows of each member, which add up to `batch`: those with `present[m]` get one at least, others
// none. `speeds[m]` is in rows a second; a member whose speed is not known (0) counts with the mean
// of those that are. With no speeds at all, or none known, the shares are even. Otherwise the
// member that is last to finish finishes as early as can be; at equal times the first member gets
// the row. Needs as many rows as present members.
std::vector<uint64_t> share_rows(uint64_t batch, std::span<const uint8_t> present,
                                 std::span<const float> speeds);

}  // namespace thinwire::schedule
