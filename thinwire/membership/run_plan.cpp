#include "thinwire/membership/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"
#include "thinwire/method/operations.h"
#include "thinwire/method/registry.h"

namespace thinwire::membership {
namespace {

// Among the operations that are not the method's own, speeds are sent with offers, and losses as
// statements, by which the coordinator decides.
bool is_of_method(const method::Operation& operation) {
  return operation.fragment != method::kSpeedsFragment &&
         operation.fragment != method::kLossesFragment;
}

// The number of completed steps after which the result has certainly been awaited. A result that is
// not due at once may be awaited as late as the beginning of the step before which it is due.
uint64_t settled_after(const method::Operation& operation, int64_t completed, int64_t steps) {
  const bool at_once = operation.due <= completed;
  return static_cast<uint64_t>(at_once ? completed : std::min(operation.due + 1, steps));
}

}  // namespace

RecipePlan::RecipePlan(const config::Recipe& recipe, std::span<const TensorSpec> tensors)
    : recipe_(recipe), method_rounds_(method::rounds_of(recipe)) {
  plan(tensors);
}

void RecipePlan::plan(std::span<const TensorSpec> tensors) {
  const int64_t steps = method_rounds_.steps;
  Planned current;
  const method::OperationsAfter operations_after =
      method::operations_of(recipe_, tensors, method::RunKind::kHosted);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t completed = step + 1;
    current.end = static_cast<uint64_t>(completed);
    int turn = 0;
    for (const method::Operation& operation : operations_after(step)) {
      if (!is_of_method(operation)) continue;
      if (operation.group != method::Group::kAll) {
        throw UsageError(
            fmt::format("[sync] within must be \"none\" for members on many hosts, got \"{}\": "
                        "machines that sum at every step are one member there, a site of ranks",
                        name_of(recipe_.sync.within)));
      }
      if (std::exchange(turn, operation.turn) < operation.turn) add(current);
      current.operations.push_back({operation.fragment, operation.bytes});
      names_.push_back({operation.fragment, operation.round, rounds_.size()});
      current.due = std::max(current.due, static_cast<uint64_t>(operation.due));
      current.settled = std::max(current.settled, settled_after(operation, completed, steps));
    }
    if (current.operations.empty()) {
      if (completed < steps && !decides_after(current.end)) continue;
      current.settled = std::max(current.settled, current.end);
    }
    add(current);
  }
  std::ranges::sort(names_);
  for (uint64_t number = 0; number < rounds(); ++number) {
    const uint64_t needed_in = round_of(std::max(rounds_[number].due, rounds_[number].end) - 1);
    if (needed_in > number) overlap_ = std::max(overlap_, needed_in - number);
  }
}

void RecipePlan::add(Planned& round) {
  std::ranges::sort(round.operations, {}, &PlannedOperation::fragment);
  Planned next{.end = round.end, .due = 0, .settled = round.settled, .operations = {}};
  rounds_.push_back(std::exchange(round, std::move(next)));
}

uint64_t RecipePlan::workers() const { return static_cast<uint64_t>(recipe_.train.workers); }
uint64_t RecipePlan::batch() const { return static_cast<uint64_t>(recipe_.train.batch); }

Opening RecipePlan::round(uint64_t number) const {
  Opening opening;
  opening.round = number;
  opening.first_step = number == 0 ? 0 : rounds_[number - 1].end;
  opening.last = number + 1 == rounds();
  for (uint64_t step = opening.first_step; step < rounds_[number].end; ++step) {
    opening.steps.push_back(
        method::step_rates(recipe_, method_rounds_, static_cast<int64_t>(step)));
  }
  opening.operations = rounds_[number].operations;
  return opening;
}

uint64_t RecipePlan::round_of(uint64_t step) const {
  const auto found = std::ranges::upper_bound(rounds_, step, {}, &Planned::end);
  assert(found != rounds_.end());
  return static_cast<uint64_t>(found - rounds_.begin());
}

uint64_t RecipePlan::last_ended(uint64_t completed) const {
  const auto later = std::ranges::upper_bound(rounds_, completed, {}, &Planned::end);
  return static_cast<uint64_t>(later - rounds_.begin()) - 1;
}

bool RecipePlan::ends_after(uint64_t completed) const {
  return std::ranges::binary_search(rounds_, completed, {}, &Planned::end);
}

Round RecipePlan::step(const Opening& opening, uint64_t run, uint64_t step) const {
  Round round = step_of(opening, run, step - opening.first_step);
  const auto at = static_cast<int64_t>(step);
  round.number = static_cast<uint64_t>(method_rounds_.number(at));
  round.closes = method_rounds_.closes(at);
  round.last = at + 1 == method_rounds_.steps;
  return round;
}

std::optional<uint64_t> RecipePlan::round_of_operation(uint64_t round, uint32_t fragment) const {
  const auto found = std::ranges::lower_bound(names_, Name{fragment, round, 0});
  if (found == names_.end() || found->fragment != fragment || found->named != round) {
    return std::nullopt;
  }
  return found->round;
}

// For one fragment, the method's and the ledger's round numbers ascend together.
std::optional<RecipePlan::OperationName> RecipePlan::operation_of(uint64_t round,
                                                                  uint32_t fragment) const {
  if (round >= rounds()) return std::nullopt;
  const auto& operations = rounds_[round].operations;
  const auto planned = std::ranges::find(operations, fragment, &PlannedOperation::fragment);
  if (planned == operations.end()) return std::nullopt;
  const auto name =
      std::ranges::lower_bound(names_, std::pair(fragment, round), {},
                               [](const Name& one) { return std::pair(one.fragment, one.round); });
  return OperationName{name->named, planned->max_bytes};
}

bool RecipePlan::decides_after(uint64_t completed) const {
  if (!decides_by_evaluations(recipe_) || completed == 0) return false;
  const auto every = static_cast<uint64_t>(recipe_.eval.every);
  return std::cmp_equal(completed, method_rounds_.steps) || (every > 0 && completed % every == 0);
}

uint64_t RecipePlan::settled_rounds(uint64_t completed) const {
  const auto found = std::ranges::upper_bound(rounds_, completed, {}, &Planned::settled);
  return static_cast<uint64_t>(found - rounds_.begin());
}

namespace {

// Payloads of the rounds that were closed after record `sequence`.
uint64_t bytes_behind(const State& state, uint64_t sequence) {
  uint64_t bytes = 0;
  for (auto at = state.closed_bytes.upper_bound(sequence); at != state.closed_bytes.end(); ++at) {
    bytes += at->second;
  }
  return bytes;
}

}  // namespace

CatchUp plan_catch_up(const State& state, const Position* position) {
  const auto& [sequence, snapshot] = *state.snapshots.rbegin();
  const CatchUp from_snapshot{sequence, snapshot.bytes + bytes_behind(state, sequence)};
  if (position == nullptr || position->sequence < state.replayable_from()) return from_snapshot;
  const CatchUp replay{std::nullopt, bytes_behind(state, position->sequence)};
  return replay.bytes <= from_snapshot.bytes ? replay : from_snapshot;
}

bool helps_with(const State& state, int member, const Lack& lack) {
  const uint64_t newest = state.snapshots.rbegin()->first;
  const uint64_t assigned = state.members[static_cast<size_t>(member)].snapshot.value_or(0);
  return newest > assigned && (!lack.position || newest > lack.position->sequence);
}

std::string too_slow(const CatchUp& plan, double down_bytes_s, const Pace& pace) {
  if (down_bytes_s <= 0 || pace.seconds <= 0) return "";
  const double run_bytes_s = pace.bytes / pace.seconds;
  if (down_bytes_s > run_bytes_s) return "";
  return fmt::format(
      "its link receives {} a second, but the run produces {} a second ({} a round of {}), so it "
      "would never catch up on {}",
      format_bytes(down_bytes_s), format_bytes(run_bytes_s), format_bytes(pace.bytes),
      format_seconds(pace.seconds), format_bytes(static_cast<double>(plan.bytes)));
}

namespace {

// As encoded (docs/formats.md, "Ledger records"); a change has its kind in front.
constexpr uint64_t kContribution = 4 + 8 + 32 + 8 + 8;
constexpr uint64_t kShare = 4 + 8 + 8 + 8;
constexpr uint64_t kPhaseChange = 1 + 4 + 1 + 1 + 8;
constexpr uint64_t kSpeed = 1 + 4 + 4;
constexpr uint64_t kAdmission = 1 + 4 + 32 + kPhaseChange;
constexpr uint64_t kStepRates = 4 + 4;
constexpr uint64_t kOperation = 4 + 8 + 32;  // in an opening, and its commit without contributions
constexpr uint64_t kRest = 8 << 10;          // returns, snapshots, digests, offences, and the frame

}  // namespace

// All fragments are exchanged after the last round; in between there is no larger one than the
// first.
uint64_t room_for_members(const RunPlan& plan, const Options& options) {
  const Opening first = plan.round(0), last = plan.round(plan.rounds() - 1);
  const uint64_t operations = std::max(first.operations.size(), last.operations.size());
  const uint64_t steps = std::max(first.steps.size(), last.steps.size());
  const uint64_t openings = 1 + plan.overlap();
  const uint64_t contributions = operations * (options.late_counts ? 2 : 1);
  uint64_t each = kContribution * contributions + kShare * openings + kPhaseChange;
  if (options.shares != config::RowShares::kEqual) each += kSpeed;
  const uint64_t rest = kRest + kAdmittedAtOnce * kAdmission +
                        openings * (steps * kStepRates + operations * kOperation);
  if (options.max_record_bytes <= rest + each) return 1;
  return (options.max_record_bytes - rest) / each;
}

float late_share(const RunPlan& plan, const Contribution& late) {
  const uint64_t rows = plan.batch() * plan.round(late.round).steps.size();
  return static_cast<float>(static_cast<double>(late.weight) / static_cast<double>(rows));
}

float share_of(const RunPlan& plan, const Opening& opening, const Contribution& listed) {
  if (listed.round != opening.round) return late_share(plan, listed);
  const Share* const share = share_of(opening, listed.member);
  const auto rows = static_cast<double>(share == nullptr ? 0 : share->rows.count);
  return static_cast<float>(rows / static_cast<double>(batch_of(opening)));
}

float mean_factor(const RunPlan& plan, const Opening& opening, const std::vector<int>& from,
                  const std::vector<Contribution>& listed) {
  uint64_t all = 0;
  for (const Share& share : opening.roster) {
    const bool contributes = from.empty() || std::ranges::find(from, share.member) != from.end();
    if (contributes) all += weight_of(opening, share.member);
  }
  uint64_t there = 0;
  double late = 0;
  for (const Contribution& one : listed) {
    if (one.round == opening.round) {
      there += one.weight;
    } else {
      const uint64_t rows = plan.batch() * plan.round(one.round).steps.size();
      late += static_cast<double>(one.weight) / static_cast<double>(rows);
    }
  }
  const auto of = static_cast<double>(all);
  if (late > 0) return static_cast<float>(1 / (static_cast<double>(there) / of + late));
  return there == 0 || there == all ? 1 : static_cast<float>(of / static_cast<double>(there));
}

}  // namespace thinwire::membership
