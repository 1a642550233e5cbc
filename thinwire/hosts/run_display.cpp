#include "thinwire/hosts/run_display.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/units.h"
#include "thinwire/hosts/key_ring.h"

namespace thinwire::hosts {

RunDisplay::RunDisplay(const config::Recipe& recipe)
    : steps_(static_cast<uint64_t>(recipe.train.steps)),
      progress_(recipe.run.name, recipe.train.steps, {}) {}

void RunDisplay::record(const membership::Record& record, bool earlier, double now) {
  if (record.closing) {
    const auto closed = open_.find(record.closing->round);
    if (closed != open_.end()) pace_.note(static_cast<int64_t>(closed->second), now);
    open_.erase(record.closing->round);
  }
  for (const membership::Opening& opening : record.openings) {
    if (!earlier) open_[opening.round] = opening.first_step + opening.steps.size();
  }
}

void RunDisplay::show(const membership::State& state) {
  show_members(state);
  const uint64_t step = state.finished       ? steps_
                        : state.open.empty() ? state.next_step
                                             : state.open.front().first_step;
  const auto active = std::ranges::count(phases_, membership::Phase::kActive);
  progress_.update(
      static_cast<int64_t>(step),
      {{"round", std::to_string(state.open.empty() ? state.next_round : state.open.front().round)},
       {"", counted(static_cast<int64_t>(active), "member")}},
      pace_.left_s(static_cast<int64_t>(steps_)));
}

void RunDisplay::show_members(const membership::State& state) {
  for (size_t id = 0; id < state.members.size(); ++id) {
    const membership::Member& member = state.members[id];
    const bool known = id < phases_.size();
    if (known && phases_[id] == member.phase) continue;
    if (!known) phases_.push_back(member.phase);
    phases_[id] = member.phase;
    events::print_message(
        fmt::format("member {} ({}) is {}", id, key_id(member.key), name_of(member.phase)));
  }
}

}  // namespace thinwire::hosts
