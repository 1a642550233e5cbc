#include <algorithm>
#include <cstddef>
#include <utility>

#include "thinwire/membership/decision.h"

namespace thinwire::membership {

void Agenda::reopen() {
  open_ = true;
  heard_.clear();
}

bool Agenda::is_due(Decision& decision) {
  if (open_) return true;
  bool is_due = false;
  for (const int member : std::exchange(heard_, {})) {
    is_due = is_due || may_matter(decision, member);
  }
  is_due = is_due || (silent_since_ && decision.is_silent(*silent_since_)) ||
           decision.can_close(arrivals_) || decision.can_reopen() || decision.can_evaluate();
  if (is_due) reopen();
  return is_due;
}

bool Agenda::may_matter(Decision& decision, int member) {
  decision.count(member, arrivals_);
  if (lacks_members_ && decision.caught_up(member)) return true;
  return may_change_digest(decision, member) || decision.concerns(member);
}

// Most reports are of a digest that is agreed on already, or one of less than half so far.
bool Agenda::may_change_digest(const Decision& decision, int member) {
  const auto& digest = decision.observed().members.at(member).digest;
  const bool is_active =
      decision.state().members[static_cast<size_t>(member)].phase == Phase::kActive;
  if (!is_active || !digest) return has_majority_;
  const std::map<uint64_t, uint64_t>& agreed = decision.state().agreed_digests;
  if (const auto known = agreed.find(digest->round); known != agreed.end()) {
    return has_majority_ || known->second != digest->digest;
  }
  std::set<int>& reporters = reporters_[digest->round];
  reporters.insert(member);
  has_majority_ = has_majority_ || 2 * reporters.size() > active_;
  return has_majority_;
}

void Agenda::close(const Decision& decision) {
  *this = {};
  open_ = false;
  const State& state = decision.state();
  active_ = static_cast<size_t>(std::ranges::count(state.members, Phase::kActive, &Member::phase));
  for (const auto& [member, seen] : decision.observed().members) {
    const Phase phase = state.members[static_cast<size_t>(member)].phase;
    if (!is_gone(phase)) silent_since_ = std::min(silent_since_.value_or(seen.at), seen.at);
    may_change_digest(decision, member);
  }
  lacks_members_ = decision.lacks_members();
  arrivals_ = decision.arrivals();
}

}  // namespace thinwire::membership
