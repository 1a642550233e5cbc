#include "thinwire/page/live_run.h"

#include <algorithm>
#include <utility>

namespace thinwire::page {
namespace {

template <typename T>
void keep(std::deque<T>& kept, T one) {
  kept.push_back(std::move(one));
  if (kept.size() > LiveRun::kKept) kept.pop_front();
}

}  // namespace

LiveRun::LiveRun(RunFacts facts, std::function<double()> clock)
    : clock_(std::move(clock)), shown_at_(clock_()) {
  state_.started = shown_at_;
  state_.step = facts.first_step;
  state_.facts = std::move(facts);
  state_.lines = TimeLines(state_.started);
}

void LiveRun::on_event(const events::StepEvent& event) {
  const Lock lock(mutex_);
  state_.train.add(event.step, event.loss);
  state_.step = event.step;
  state_.bytes_sent += event.bytes_sent;
  state_.bytes_received += event.bytes_received;
  state_.member_steps += 1;
  state_.last = event;
  if (event.time > 0) return;  // read back
  for (const auto& [phase, seconds] : event.seconds) state_.phases[phase] += seconds;
  ++state_.phase_steps;
  pace_.note(event.step, clock_());
  state_.step_s = pace_.step_s();
}

void LiveRun::on_event(const events::EvalEvent& event) {
  const Lock lock(mutex_);
  auto& curves = event.score ? state_.scores : state_.validation;
  curves[event.name].add(event.step, event.loss);
}

void LiveRun::on_event(const events::MessageEvent& event) {
  const Lock lock(mutex_);
  keep(state_.messages, {clock_(), std::nullopt, event.text});
}

void LiveRun::on_event(const events::WorkerStep& part) {
  const Lock lock(mutex_);
  const double now = clock_();
  const double exchange = now - part.exchange_s;
  const auto line = static_cast<size_t>(part.worker);
  state_.lines.spend(line, ActivityKind::kComputing, exchange - part.compute_s, exchange);
  state_.lines.spend(line, ActivityKind::kWaiting, exchange, now);
  MemberNow& member = state_.members[part.worker];
  member.id = part.worker;
  member.step = part.step;
  member.compute_s = part.compute_s;
  member.exchange_s = part.exchange_s;
  if (member.activity_since == 0) member.activity_since = now;
}

void LiveRun::show(const std::vector<MemberNow>& members) {
  const Lock lock(mutex_);
  const double now = clock_();
  for (const MemberNow& one : members) {
    const auto [known, is_new] = state_.members.try_emplace(one.id);
    MemberNow& member = known->second;
    const ActivityKind before = is_new ? one.activity : member.activity;
    const double since = is_new || before != one.activity ? now : member.activity_since;
    if (!is_new) state_.lines.spend(static_cast<size_t>(one.id), before, shown_at_, now);
    member = one;
    member.activity_since = since;
  }
  shown_at_ = now;
}

void LiveRun::show_place(int64_t step, uint64_t round, const std::string& waits_for) {
  const Lock lock(mutex_);
  state_.step = step;
  state_.round = round;
  state_.waits_for = waits_for;
}

void LiveRun::close(const ClosedRound& round) {
  const Lock lock(mutex_);
  uint64_t all = 0;
  for (const auto& [member, bytes] : round.bytes) all += bytes;
  const size_t roster = round.bytes.size() + round.missing.size();
  state_.bytes_sent += static_cast<double>(all);
  state_.bytes_received += static_cast<double>(round.received.value_or((roster - 1) * all));
  state_.member_steps += static_cast<double>(roster) * static_cast<double>(round.steps);
  ++state_.closed_rounds;
  if (round.seconds) {
    pace_.note(round.first_step + round.steps, clock_());
    state_.step_s = pace_.step_s();
  }
  keep(state_.rounds, round);
}

void LiveRun::add_train_loss(int64_t step, double loss) {
  const Lock lock(mutex_);
  state_.train.add(step, loss);
}

void LiveRun::add_fault(std::optional<int> member, const std::string& text) {
  const Lock lock(mutex_);
  keep(state_.faults, {clock_(), member, text});
}

void LiveRun::finish() {
  const Lock lock(mutex_);
  state_.finished = true;
}

PageState LiveRun::state() const {
  const Lock lock(mutex_);
  PageState state = state_;
  state.now = clock_();
  return state;
}

}  // namespace thinwire::page
