// The table [sync] of a recipe: how the workers stay in agreement.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/aggregate.h"
#include "thinwire/config/fields.h"

namespace thinwire::config {

// How a step's rows are divided among workers that train independently.
enum class RowShares : uint8_t { kEqual, kSpeed };
inline constexpr std::string_view kRowSharesNames[] = {"equal", "speed"};
constexpr std::span<const std::string_view> names_of(RowShares) { return kRowSharesNames; }

// What becomes of a contribution that arrives after its round was closed.
enum class LateContributions : uint8_t { kDrop, kCount };
inline constexpr std::string_view kLateContributionsNames[] = {"drop", "count"};
constexpr std::span<const std::string_view> names_of(LateContributions) {
  return kLateContributionsNames;
}

// On many hosts: who forms the sum of a commit's contributions.
enum class Sums : uint8_t { kAuto, kCoordinator, kMembers };
inline constexpr std::string_view kSumsNames[] = {"auto", "coordinator", "members"};
constexpr std::span<const std::string_view> names_of(Sums) { return kSumsNames; }

struct SyncSection final : SectionOf<SyncSection> {
  std::string method = "allreduce";  // a name of method/registry.h
  std::string within = "none";       // none | allreduce | distro: what clusters do every step
  int64_t clusters = 0;              // 0: no clusters
  RowShares shares = RowShares::kEqual;
  Aggregate aggregate = Aggregate::kMean;
  double trim = 0.1;        // with aggregate = trimmed_mean
  StringList absent;        // "MEMBER=FIRST-LAST": rounds without that worker
  double timeout_s = 1800;  // all waits for other workers derive from this
  double quorum = 1;        // of members on many hosts
  LateContributions late = LateContributions::kDrop;  // of members on many hosts
  Sums sums = Sums::kAuto;                            // likewise
  bool clustered() const { return within != "none"; }
  AggregateOptions aggregation() const { return {aggregate, trim}; }
  void describe(Fields& fields) override;
};

}  // namespace thinwire::config
