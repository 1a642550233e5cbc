#include "thinwire/plan/method_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

constexpr size_t kMostGroupsWhole = 6;  // of which every choice is tried
constexpr size_t kMostGroupsInPairs = 16;
constexpr size_t kMostGroups = 64;       // of more, none is left out
constexpr double kClearlySooner = 0.95;  // of the time that all members together take
constexpr double kSooner = 0.99;

bool are_unequal(std::span<const Member> members) {
  return std::ranges::any_of(
      members, [&](const Member& member) { return member.flops != members.front().flops; });
}

void add_costs(MethodPlan& plan, const PlanQuestion& question) {
  plan.candidates = make_candidates(question.file, question.overrides, member_count(plan.members),
                                    site_clusters(plan.members), are_unequal(plan.members));
  if (question.keep) question.keep(plan.candidates);
  for (const Candidate& candidate : plan.candidates.all) {
    plan.costs.push_back(method_cost(candidate, plan.members, plan.laws, plan.program_bytes));
  }
}

// The plan without the groups that are not chosen; nullopt if the recipe cannot do without them.
std::optional<MethodPlan> with_groups(const MethodPlan& whole, uint64_t choice,
                                      const PlanQuestion& question) {
  MethodPlan part;
  part.recipe = whole.recipe;
  part.model = whole.model;
  part.laws = whole.laws;
  part.program_bytes = whole.program_bytes;
  for (size_t i = 0; i < whole.members.size(); ++i) {
    const bool takes_part = (choice >> i & 1) != 0;
    (takes_part ? part.members : part.idle).push_back(whole.members[i]);
  }
  try {
    add_costs(part, question);
  } catch (const UsageError&) {
    return std::nullopt;
  }
  return part;
}

// Looks for those groups that finish soonest without the others. A choice is a number whose bit i
// says whether group i takes part.
class GroupSearch {
 public:
  GroupSearch(const MethodPlan& whole, const PlanQuestion& question)
      : whole_(whole), question_(question), all_(~uint64_t{0} >> (kMostGroups - count())) {
    add(all_, whole.costs);
  }

  // Tries every choice of a few groups; of more, the fastest one, the fastest two and so on, the
  // same by their lines, and from the best of these on whatever improves with one group, or two
  // groups, more or less.
  void run() {
    if (count() <= kMostGroupsWhole) {
      for (uint64_t choice = 1; choice < all_; ++choice) try_choice(choice);
      return;
    }
    try_first([](const Member& member) { return member.flops; });
    try_first([](const Member& member) { return member.link.up_bit_s; });
    try_first([](const Member& member) { return member.link.down_bit_s; });
    for (uint64_t best = 0; best != soonest();) {
      best = soonest();
      try_around(best, 1);
      if (best == soonest() && count() <= kMostGroupsInPairs) try_around(best, 2);
    }
  }

  // The choice to be made: all, or those who finish clearly sooner; among those that take about as
  // long, the one that leaves out the fewest members.
  uint64_t choice() const {
    std::vector<uint64_t> order;
    for (const auto& [choice, costs] : tried_) order.push_back(choice);
    std::ranges::stable_sort(order, {}, [&](uint64_t choice) { return members_left_out(choice); });
    uint64_t best = all_;
    double most_s = kClearlySooner * seconds_of(all_);
    for (const uint64_t choice : order) {
      if (choice == all_ || seconds_of(choice) >= most_s) continue;
      best = choice;
      most_s = kSooner * seconds_of(choice);
    }
    return best;
  }

  uint64_t all() const { return all_; }

  // The lowest loss expected of any choice.
  double least() const { return least_; }

  // Infinite: no method can be recommended.
  double seconds_of(uint64_t choice) const {
    const std::vector<MethodCost>& costs = tried_.at(choice);
    const auto recommended = recommend(costs, question_.tolerance, least_);
    return recommended ? costs[recommended->index].seconds
                       : std::numeric_limits<double>::infinity();
  }

 private:
  size_t count() const { return whole_.members.size(); }

  void add(uint64_t choice, std::vector<MethodCost> costs) {
    least_ = std::min(least_, least_loss(costs));
    tried_.emplace(choice, std::move(costs));
  }

  void try_choice(uint64_t choice) {
    if (choice == 0 || tried_.contains(choice)) return;
    std::optional<MethodPlan> part = with_groups(whole_, choice, question_);
    add(choice, part ? std::move(part->costs) : std::vector<MethodCost>());
  }

  template <class Value>
  void try_first(const Value& value) {
    std::vector<size_t> order(count());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(),
                             [&](size_t i) { return value(whole_.members[i]); });
    uint64_t first = 0;
    for (const size_t i : order) try_choice(first |= uint64_t{1} << i);
  }

  // The choices that differ from this one in one group, or in two.
  void try_around(uint64_t choice, int groups) {
    for (size_t i = 0; i < count(); ++i) {
      const uint64_t near = choice ^ uint64_t { 1 } << i;
      if (groups == 1) try_choice(near);
      for (size_t j = 0; groups == 2 && j < i; ++j) try_choice(near ^ uint64_t{1} << j);
    }
  }

  uint64_t soonest() const {
    return std::ranges::min_element(tried_, {},
                                    [&](const auto& tried) { return seconds_of(tried.first); })
        ->first;
  }

  int64_t members_left_out(uint64_t choice) const {
    int64_t members = 0;
    for (size_t i = 0; i < count(); ++i) {
      if ((choice >> i & 1) == 0) members += whole_.members[i].count;
    }
    return members;
  }

  const MethodPlan& whole_;
  const PlanQuestion& question_;
  const uint64_t all_;
  std::map<uint64_t, std::vector<MethodCost>> tried_;  // none: the recipe cannot do with them
  double least_ = std::numeric_limits<double>::infinity();
};

// The plan of those who finish clearly sooner without the rest, or `whole`.
MethodPlan without_hindrance(MethodPlan whole, const PlanQuestion& question) {
  if (whole.members.size() > kMostGroups) {
    whole.recommended = recommend(whole.costs, question.tolerance, least_loss(whole.costs));
    return whole;
  }
  GroupSearch search(whole, question);
  search.run();
  const uint64_t choice = search.choice();
  const double all_s = search.seconds_of(search.all());
  MethodPlan best = choice == search.all() ? whole : *with_groups(whole, choice, question);
  best.recommended = recommend(best.costs, question.tolerance, search.least());
  if (choice != search.all() && std::isfinite(all_s)) best.seconds_with_all = all_s;
  return best;
}

}  // namespace

MethodPlan plan_methods(MethodPlan plan, const PlanQuestion& question) {
  add_costs(plan, question);
  return without_hindrance(std::move(plan), question);
}

}  // namespace thinwire::plan
