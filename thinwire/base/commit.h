// A commit: which contributions an operation of a run has, as a record that everybody reads, not an
// opinion of each receiver. Nobody applies anything of an operation before its commit; a payload
// that a member lacks is fetched by its hash; whoever's contribution is not listed puts it back or
// begins anew, as its method says.
#pragma once

#include <bit>
#include <compare>
#include <cstdint>
#include <vector>

#include "thinwire/base/sha256.h"

namespace thinwire {

// Names one collective operation of a run; whoever takes part must agree on all of it.
struct OperationKey {
  uint64_t run = 0;
  uint32_t epoch = 0;  // changes with the membership
  uint64_t round = 0;
  uint32_t fragment = 0;
  auto operator<=>(const OperationKey&) const = default;
};

// A contribution as committed.
struct Contribution {
  int member = 0;
  // The round for which it was made: the commit's own, or an earlier one where it came too late for
  // that and the run counts such ones at the fragment's next turn.
  uint64_t round = 0;
  Sha256 payload;
  uint64_t bytes = 0;   // of the payload
  uint64_t weight = 0;  // rows of data that it stands for
  bool operator==(const Contribution&) const = default;
};

struct Commit {
  OperationKey operation;
  std::vector<Contribution> contributions;  // ascending by member, then round
  // 1 / sum of the weights, 0 without contributions. Carried as bits, never recomputed by members.
  float scale = 0;
  bool operator==(const Commit& other) const {
    return operation == other.operation && contributions == other.contributions &&
           std::bit_cast<uint32_t>(scale) == std::bit_cast<uint32_t>(other.scale);
  }
};

// What `scale` is of these.
inline float commit_scale(const std::vector<Contribution>& contributions) {
  uint64_t weight = 0;
  for (const Contribution& one : contributions) weight += one.weight;
  return weight == 0 ? 0.0f : static_cast<float>(1.0 / static_cast<double>(weight));
}

}  // namespace thinwire
