#include "thinwire/plan/method_plan.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

constexpr size_t kMostGroupsWhole = 6;   // of which every choice is tried
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

// Which groups could take part without the others, as bits: every choice of a few groups; of more,
// the fastest one, the fastest two and so on, and all but each one; none of more than 64.
std::vector<uint64_t> partial_groups(std::span<const Member> groups) {
  const size_t count = groups.size();
  std::vector<uint64_t> choices;
  if (count > std::numeric_limits<uint64_t>::digits) return choices;
  if (count <= kMostGroupsWhole) {
    for (uint64_t choice = 1; choice + 1 < uint64_t{1} << count; ++choice) {
      choices.push_back(choice);
    }
    return choices;
  }
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return groups[i].flops; });
  std::set<uint64_t> few;
  uint64_t fastest = 0;
  for (size_t i = 0; i + 1 < count; ++i) few.insert(fastest |= uint64_t{1} << order[i]);
  const uint64_t all = fastest | uint64_t{1} << order.back();
  for (size_t i = 0; i < count; ++i) few.insert(all & ~(uint64_t{1} << i));
  return {few.begin(), few.end()};
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

double seconds_of(const MethodPlan& plan) {
  return plan.recommended ? plan.costs[plan.recommended->index].seconds
                          : std::numeric_limits<double>::infinity();
}

// The plan of those who finish clearly sooner without the rest, or `whole`.
MethodPlan without_hindrance(MethodPlan whole, const PlanQuestion& question) {
  std::vector<MethodPlan> parts;
  double least = least_loss(whole.costs);
  for (const uint64_t choice : partial_groups(whole.members)) {
    std::optional<MethodPlan> part = with_groups(whole, choice, question);
    if (!part) continue;
    parts.push_back(*std::move(part));
    least = std::min(least, least_loss(parts.back().costs));
  }
  whole.recommended = recommend(whole.costs, question.tolerance, least);
  for (MethodPlan& part : parts) {
    part.recommended = recommend(part.costs, question.tolerance, least);
  }
  // Among those that take about as long, the one that leaves out the fewest.
  std::ranges::stable_sort(parts, {},
                           [](const MethodPlan& part) { return member_count(part.idle); });
  MethodPlan* best = nullptr;
  double most_s = kClearlySooner * seconds_of(whole);
  for (MethodPlan& part : parts) {
    if (seconds_of(part) >= most_s) continue;
    best = &part;
    most_s = kSooner * seconds_of(part);
  }
  if (best == nullptr) return whole;
  if (whole.recommended) best->seconds_with_all = seconds_of(whole);
  return std::move(*best);
}

}  // namespace

MethodPlan plan_methods(MethodPlan plan, const PlanQuestion& question) {
  add_costs(plan, question);
  return without_hindrance(std::move(plan), question);
}

}  // namespace thinwire::plan
