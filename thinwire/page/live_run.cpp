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
  picture_.started = shown_at_;
  picture_.step = facts.first_step;
  picture_.facts = std::move(facts);
  picture_.lines = TimeLines(picture_.started);
}

void LiveRun::hear(const events::StepEvent& event) {
  const std::lock_guard lock(mutex_);
  picture_.train.add(event.step, event.loss);
  picture_.step = event.step;
  picture_.bytes_sent += event.bytes_sent;
  picture_.bytes_received += event.bytes_received;
  picture_.member_steps += 1;
  picture_.last = event;
  if (event.time > 0) return;  // read back
  for (const auto& [phase, seconds] : event.seconds) picture_.phases[phase] += seconds;
  ++picture_.phase_steps;
  pace_.note(event.step, clock_());
  picture_.step_s = pace_.step_s();
}

void LiveRun::hear(const events::EvalEvent& event) {
  const std::lock_guard lock(mutex_);
  auto& curves = event.score ? picture_.scores : picture_.validation;
  curves[event.name].add(event.step, event.loss);
}

void LiveRun::hear(const events::MessageEvent& event) {
  const std::lock_guard lock(mutex_);
  keep(picture_.messages, {clock_(), std::nullopt, event.text});
}

void LiveRun::hear(const events::WorkerStep& part) {
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  const double exchange = now - part.exchange_s;
  const auto line = static_cast<size_t>(part.worker);
  picture_.lines.spend(line, Doing::kComputing, exchange - part.compute_s, exchange);
  picture_.lines.spend(line, Doing::kWaiting, exchange, now);
  MemberNow& member = picture_.members[part.worker];
  member.id = part.worker;
  member.step = part.step;
  member.compute_s = part.compute_s;
  member.exchange_s = part.exchange_s;
  if (member.doing_since == 0) member.doing_since = now;
}

void LiveRun::show(const std::vector<MemberNow>& members) {
  const std::lock_guard lock(mutex_);
  const double now = clock_();
  for (const MemberNow& one : members) {
    const auto [known, is_new] = picture_.members.try_emplace(one.id);
    MemberNow& member = known->second;
    const Doing before = is_new ? one.doing : member.doing;
    const double since = is_new || before != one.doing ? now : member.doing_since;
    if (!is_new) picture_.lines.spend(static_cast<size_t>(one.id), before, shown_at_, now);
    member = one;
    member.doing_since = since;
  }
  shown_at_ = now;
}

void LiveRun::show_place(int64_t step, uint64_t round, const std::string& waits_for) {
  const std::lock_guard lock(mutex_);
  picture_.step = step;
  picture_.round = round;
  picture_.waits_for = waits_for;
}

void LiveRun::close(const ClosedRound& round) {
  const std::lock_guard lock(mutex_);
  uint64_t all = 0;
  for (const auto& [member, bytes] : round.bytes) all += bytes;
  // Everybody in the round fetches what the others sent.
  const size_t roster = round.bytes.size() + round.missing.size();
  picture_.bytes_sent += static_cast<double>(all);
  picture_.bytes_received +=
      static_cast<double>(roster) * static_cast<double>(all) - static_cast<double>(all);
  picture_.member_steps += static_cast<double>(roster) * static_cast<double>(round.steps);
  ++picture_.closed_rounds;
  if (round.seconds) {
    pace_.note(round.first_step + round.steps, clock_());
    picture_.step_s = pace_.step_s();
  }
  keep(picture_.rounds, round);
}

void LiveRun::add_fault(std::optional<int> member, const std::string& text) {
  const std::lock_guard lock(mutex_);
  keep(picture_.faults, {clock_(), member, text});
}

void LiveRun::finish() {
  const std::lock_guard lock(mutex_);
  picture_.finished = true;
}

Picture LiveRun::picture() const {
  const std::lock_guard lock(mutex_);
  Picture picture = picture_;
  picture.now = clock_();
  return picture;
}

}  // namespace thinwire::page
