// How what the members contribute becomes one update (recipe field sync.aggregate). The arithmetic
// is in codec/aggregation.h; docs/aggregation.md says which rule withstands what.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace thinwire {

enum class Aggregate : uint8_t { kMean, kNormClipping, kTrimmedMean, kMajorityVote };
inline constexpr std::string_view kAggregateNames[] = {"mean", "norm_clipping", "trimmed_mean",
                                                       "majority_vote"};
constexpr std::span<const std::string_view> names_of(Aggregate) { return kAggregateNames; }

// A rule and what it depends on besides the contributions.
struct AggregateOptions {
  Aggregate rule = Aggregate::kMean;
  double trim = 0;  // trimmed_mean: share of the members from either end, rounded up

  bool robust() const { return rule != Aggregate::kMean; }
};

}  // namespace thinwire
