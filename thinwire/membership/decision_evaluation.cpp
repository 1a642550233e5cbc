// What an evaluation decides: which weights are the best, and whether the run ends.
#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>

#include "thinwire/membership/decision.h"

namespace thinwire::membership {

// Whether the member's part of the evaluation that is due may still come. Whoever has lost its
// connection may be back in a moment.
bool Decision::will_report(int member) const {
  if (phase(member) != Phase::kActive || observed_.evaluation->losses.contains(member))
    return false;
  const Seen& seen = observed_.members.at(member);
  return silence(seen.at) <= (seen.departed ? options_.return_s() : options_.absent_s());
}

// Once all have reported that can. Whoever is present, but takes longer than the others by the
// time-out, is no longer waited for, and nobody is if none has reported within it.
bool Decision::can_evaluate() const {
  const std::optional<DueEvaluation>& due = observed_.evaluation;
  if (!due || !state_.open.empty() || due->step() != state_.next_step ||
      state_.evaluated.step >= due->step()) {
    return false;
  }
  // Without an open round, front_since is when the last one was closed.
  const double since = due->losses.empty() ? observed_.front_since : due->first_at;
  const bool is_overdue = now_ - since >= options_.timeout_s;
  if (is_overdue && !is_cut_off()) return true;
  return std::ranges::none_of(due->last.roster,
                              [this](const Share& share) { return will_report(share.member); });
}

// Added in the order of members, as in runs of one job.
void Decision::evaluate() {
  const DueEvaluation& due = *observed_.evaluation;
  double sum = 0;
  uint64_t tokens = 0;
  for (const auto& [member, loss] : due.losses) {
    sum += loss.sum;
    tokens += loss.tokens;
  }
  Evaluation evaluation{due.step(), {}, false};
  if (tokens > 0 && std::isfinite(sum)) {
    const Evaluated& before = state_.evaluated;
    evaluation.loss = sum / static_cast<double>(tokens);
    const uint64_t since = before.is_better(*evaluation.loss) ? 0 : before.since + 1;
    evaluation.ends = options_.patience > 0 && since >= options_.patience;
  }
  record_.changes.emplace_back(evaluation);
}

// Whether what an evaluation decides before this round is known. A round without steps belongs to
// the step before, which members evaluate after it.
bool Decision::may_open(uint64_t number) const {
  const Opening opening = plan_.round(number);
  const uint64_t step = opening.first_step;
  if (opening.steps.empty()) return true;
  if (!plan_.decides_after(step) || state_.evaluated.step >= step) return true;
  return std::ranges::any_of(record_.changes, [step](const Change& change) {
    const auto* evaluation = std::get_if<Evaluation>(&change);
    return evaluation != nullptr && evaluation->step >= step && !evaluation->ends;
  });
}

const Opening* Decision::last_opening() const {
  if (!state_.open.empty()) return &state_.open.back();
  const std::optional<DueEvaluation>& due = observed_.evaluation;
  const bool follows = due && due->last.round + 1 == state_.next_round;
  return follows ? &due->last : nullptr;
}

}  // namespace thinwire::membership
