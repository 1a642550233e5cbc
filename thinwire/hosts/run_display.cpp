#include "thinwire/hosts/run_display.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/serve_run.h"
#include "thinwire/hosts/served_run.h"

namespace thinwire::hosts {
namespace {

constexpr std::chrono::seconds kMoment(1);
constexpr std::chrono::seconds kProgressInterval(10);

}  // namespace

void tell_ready(const ServeOptions& options, const config::Recipe& recipe, const Entrance& entrance,
                const std::string& token) {
  const std::string address = entrance.address();
  if (!options.ready_file.empty()) {
    const fs::path ca = entrance.authority_file(fs::path(recipe.run.dir) / kServerFolder);
    const nlohmann::json ready = {{"address", address},
                                  {"token", token},
                                  {"ca", ca.empty() ? "" : fs::absolute(ca).string()}};
    write_file(options.ready_file, print_json(ready, {.indent = 2}) + "\n");
  }
  if (options.on_ready) options.on_ready(address, token);
  const bool external = method::is_external(recipe);
  const events::Display& display = options.display;
  display.message(fmt::format(
      "{} is served at {}; members join with{}", recipe.run.name, entrance.served_at(),
      external ? " a program that has the model, the address and the token" : entrance.hint()));
  const std::string command = external
                                  ? fmt::format("  {} {}", address, token)
                                  : fmt::format("  thinwire join {} --token {}", address, token);
  options.ready_file.empty() ? display.needed(command) : display.message(command);
}

ActivityDisplay::ActivityDisplay(events::MessageSink print)
    : print_(std::move(print)), thread_([this] { show_what_lasts(); }) {}

ActivityDisplay::~ActivityDisplay() {
  {
    const Lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ActivityDisplay::show(const member::Activity& activity) {
  const Lock lock(mutex_);
  // The progress line shows training.
  std::string text = activity.kind == member::ActivityKind::kTraining ? "" : activity.text;
  if (text == text_) return;  // it lasts
  text_ = std::move(text);
  const bool goes_on = activity.kind == member::ActivityKind::kCatchingUp && kind_ == activity.kind;
  kind_ = activity.kind;
  if (goes_on) return;
  ++changes_;
  changed_.notify_one();
}

void ActivityDisplay::show_what_lasts() {
  const Lock lock(mutex_);
  while (!ended_) {
    const uint64_t before = changes_;
    const auto changed = [&]() REQUIRES(mutex_) { return ended_ || changes_ != before; };
    if (changed_.wait_for(mutex_, kMoment, changed)) continue;
    do {
      if (!text_.empty() && text_ != shown_) print_(text_);
      shown_ = text_;
    } while (!changed_.wait_for(mutex_, kProgressInterval, changed));
  }
}

RunDisplay::RunDisplay(const config::Recipe& recipe, MachineOf machine_of,
                       const events::Display& display)
    : steps_(static_cast<uint64_t>(recipe.train.steps)),
      machine_of_(std::move(machine_of)),
      print_(display.message),
      progress_(recipe.run.name, recipe.train.steps, {.silent = !display.progress}) {}

void RunDisplay::record(const membership::Record& record, bool earlier, double now) {
  if (record.closing) {
    const auto closed = open_.find(record.closing->round);
    if (closed != open_.end()) pace_.note(static_cast<int64_t>(closed->second), now);
    open_.erase(record.closing->round);
  }
  for (const membership::Change& change : record.changes) {
    const auto* evaluation = std::get_if<membership::Evaluation>(&change);
    if (evaluation != nullptr && evaluation->ends && evaluation->step < steps_ && !earlier) {
      print_(
          fmt::format("the run ends early, after step {}: the loss has not fallen for as many "
                      "evaluations as eval.patience says",
                      evaluation->step));
    }
  }
  for (const membership::Opening& opening : record.openings) {
    if (!earlier) open_[opening.round] = opening.first_step + opening.steps.size();
  }
}

void RunDisplay::show(const membership::State& state) {
  show_changes(state);
  const uint64_t step = state.open.empty() ? state.next_step : state.open.front().first_step;
  const bool has_begun = state.next_round > 0;
  const auto members = std::ranges::count_if(phases_, [&](membership::Phase phase) {
    return has_begun ? phase == membership::Phase::kActive : !is_gone(phase);
  });
  progress_.update(
      static_cast<int64_t>(step),
      {{"round", std::to_string(state.open.empty() ? state.next_round : state.open.front().round)},
       {"", counted(static_cast<int64_t>(members), "member")}},
      pace_.left_s(static_cast<int64_t>(steps_)));
}

// A run that goes on: who joined and left so far is no news.
void RunDisplay::show_earlier(const membership::State& state) const {
  if (state.members.empty()) return;
  std::map<membership::Phase, int64_t> counts;
  for (const membership::Member& member : state.members) ++counts[member.phase];
  std::vector<std::string> parts;
  for (const auto& [phase, count] : counts) {
    parts.push_back(fmt::format("{} {}", count, name_of(phase)));
  }
  const uint64_t round = state.open.empty() ? state.next_round : state.open.front().round;
  print_(fmt::format("the run goes on from round {}; it had {} before: {}", round,
                     counted(static_cast<int64_t>(state.members.size()), "member"),
                     fmt::join(parts, ", ")));
}

void RunDisplay::show_changes(const membership::State& state) {
  if (!std::exchange(shown_, true)) {
    show_earlier(state);
    for (const membership::Member& member : state.members) phases_.push_back(member.phase);
  }
  for (size_t id = 0; id < state.members.size(); ++id) {
    const membership::Member& member = state.members[id];
    const bool known = id < phases_.size();
    if (known && phases_[id] == member.phase) continue;
    if (!known) phases_.push_back(member.phase);
    phases_[id] = member.phase;
    print_(fmt::format("member {} ({}) is {}", id, label_of(member.key, machine_of_(member.key)),
                       name_of(member.phase)));
  }
}

}  // namespace thinwire::hosts
