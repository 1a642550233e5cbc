// A commit: the record of which contributions an operation of a run includes. All members read the
// same record instead of each deciding for itself. No member applies any part of an operation
// before its commit. A member that lacks a payload fetches it by its hash. A member whose
// contribution is not listed restores it to its local state or starts over, depending on its
// method.
#pragma once

#include <algorithm>
#include <bit>
#include <compare>
#include <cstdint>
#include <utility>
#include <vector>

#include "thinwire/base/digest.h"

namespace thinwire {

// Identifies one collective operation of a run. All participants must agree on every field.
struct OperationKey {
  uint64_t run = 0;
  uint32_t epoch = 0;  // changes with the membership
  uint64_t round = 0;
  uint32_t fragment = 0;
  auto operator<=>(const OperationKey&) const = default;
};

// A contribution listed in a commit.
struct Contribution {
  int member = 0;
  // The round it was made for: the commit's own round, or an earlier one if it arrived too late for
  // that round and the run counts late contributions when the fragment is next exchanged.
  uint64_t round = 0;
  Sha256 payload;
  uint64_t bytes = 0;   // size of the payload
  uint64_t weight = 0;  // rows of data it represents
  bool operator==(const Contribution&) const = default;
};

struct Commit {
  OperationKey operation;
  std::vector<Contribution> contributions;  // ascending by member, then round
  // 1 / sum of the weights; 0 without contributions. Sent bit for bit; members never recompute it.
  float scale = 0;
  bool operator==(const Commit& other) const {
    return operation == other.operation && contributions == other.contributions &&
           std::bit_cast<uint32_t>(scale) == std::bit_cast<uint32_t>(other.scale);
  }
};

// What a commit lists of a member's contributions for a round; null: nothing.
inline const Contribution* contribution_of(const Commit& commit, int member, uint64_t round) {
  const auto found =
      std::ranges::lower_bound(commit.contributions, std::pair(member, round), {},
                               [](const auto& one) { return std::pair(one.member, one.round); });
  const bool is_it =
      found != commit.contributions.end() && found->member == member && found->round == round;
  return is_it ? &*found : nullptr;
}

// The value of Commit::scale for these contributions.
inline float commit_scale(const std::vector<Contribution>& contributions) {
  uint64_t weight = 0;
  for (const Contribution& one : contributions) weight += one.weight;
  return weight == 0 ? 0.0f : static_cast<float>(1.0 / static_cast<double>(weight));
}

}  // namespace thinwire
