// How the rows of a training step are divided among members of unequal speed: a pure function with
// a fixed graph of operations, the same on every machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::schedule {

// Where the `index`-th of `members` parts of `count` begins, divided as evenly as possible; it ends
// where the next part begins.
constexpr uint64_t even_share_begin(uint64_t count, uint64_t index, uint64_t members) {
  return count * index / members;
}

// Rows of each member, which add up to `batch`: those with `present[m]` get at least one, the
// others none. `speeds[m]` is in rows per second; for an unknown speed (0) the mean of the known
// ones is used. With no speeds at all, or none known, the shares are equal. Otherwise the last
// member to finish finishes as early as possible; at equal times the first member gets the row.
// Needs at least as many rows as present members.
std::vector<uint64_t> share_rows(uint64_t batch, std::span<const uint8_t> present,
                                 std::span<const float> speeds);

}  // namespace thinwire::schedule
