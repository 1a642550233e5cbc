#include <cmath>
#include <nlohmann/json.hpp>

#include "thinwire/base/json.h"
#include "thinwire/base/names.h"
#include "thinwire/page/live_run.h"

namespace thinwire::page {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;         // raised when a field changes its meaning
constexpr size_t kTimeLines = 64;  // members whose time lines are printed

// Six digits are more than a plot can show, and full precision would double the text.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0) return 0;
  const double scale = std::pow(10, 5 - std::floor(std::log10(std::abs(value))));
  const double result = std::round(value * scale) / scale;
  return std::isfinite(result) ? result : value;
}

Json positive(double value) { return value > 0 ? rounded(value) : Json(nullptr); }

template <typename T>
Json optional(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json print(const Curve& curve) {
  Json steps = Json::array(), values = Json::array();
  for (const Curve::Point& point : curve.points()) {
    steps.push_back(point.step);
    values.push_back(rounded(point.value));
  }
  return {{"step", std::move(steps)}, {"value", std::move(values)}};
}

Json print(const std::map<std::string, Curve>& curves) {
  Json all = Json::object();
  for (const auto& [name, curve] : curves) all[name] = print(curve);
  return all;
}

// Percent of each bucket, by what the member did; what it never did is left out.
Json print(std::span<const TimeLines::Bucket> line, double bucket_s) {
  Json all = Json::object();
  for (size_t activity = 0; activity < kTimedActivities; ++activity) {
    Json percent = Json::array();
    bool any = false;
    for (const TimeLines::Bucket& bucket : line) {
      const auto share = static_cast<int>(std::lround(100 * bucket[activity] / bucket_s));
      percent.push_back(std::min(share, 100));
      any = any || share > 0;
    }
    if (any) all[std::string(kActivityNames[activity])] = std::move(percent);
  }
  return all;
}

Json print(const MemberNow& member, const TimeLines& lines, bool with_line) {
  Json json = {{"id", member.id},
               {"name", member.name},
               {"doing", name_of(member.activity)},
               {"why", member.why},
               {"since", rounded(member.activity_since)},
               {"step", member.step >= 0 ? Json(member.step) : Json(nullptr)},
               {"round", optional(member.round)},
               {"compute_s", positive(member.compute_s)},
               {"exchange_s", positive(member.exchange_s)},
               {"down_bytes_s", positive(member.down_bytes_s)},
               {"offences", member.offences},
               {"rows", member.rows},
               {"bytes", member.bytes},
               {"hours", member.hours},
               {"kilowatt_hours", member.kilowatt_hours},
               {"co2_kg", member.co2_kg}};
  json["since"] = std::round(member.activity_since * 10) / 10;
  if (with_line) {
    json["time_line"] = print(lines.of(static_cast<size_t>(member.id)), lines.bucket_s());
  }
  return json;
}

Json print(const ClosedRound& round) {
  Json counted = Json::array();
  uint64_t bytes = 0;
  for (const auto& [member, sent] : round.bytes) {
    counted.push_back(member);
    bytes += sent;
  }
  return {{"round", round.round},
          {"first_step", round.first_step},
          {"steps", round.steps},
          {"seconds", round.seconds ? rounded(*round.seconds) : Json(nullptr)},
          {"counted", std::move(counted)},
          {"missing", round.missing},
          {"bytes", bytes}};
}

Json print(const std::deque<Fault>& faults) {
  Json all = Json::array();
  for (const Fault& fault : faults) {
    all.push_back({{"time", std::round(fault.time * 10) / 10},
                   {"member", optional(fault.member)},
                   {"text", fault.text}});
  }
  return all;
}

Json print_bytes(const PageState& state) {
  const bool known = state.member_steps > 0;
  const auto measured = [&](double sum) {
    return known ? rounded(sum / state.member_steps) : Json(nullptr);
  };
  const PredictedBytes& predicted = state.facts.predicted;
  return {
      {"sent", {{"measured", measured(state.bytes_sent)}, {"predicted", rounded(predicted.sent)}}},
      {"received",
       {{"measured", measured(state.bytes_received)}, {"predicted", rounded(predicted.received)}}},
      {"prediction_is_exact", predicted.exact}};
}

Json print_phases(const PageState& state) {
  Json phases = Json::object();
  for (const auto& [phase, seconds] : state.phases) {
    phases[phase] = rounded(seconds / static_cast<double>(state.phase_steps));
  }
  return phases;
}

Json print_head(const PageState& state) {
  const RunFacts& facts = state.facts;
  const bool running = !state.finished && state.step_s;
  const Json left = running ? rounded(*state.step_s * static_cast<double>(facts.steps - state.step))
                            : Json(nullptr);
  return {{"format", kFormat},
          {"command", facts.command},
          {"name", facts.name},
          {"method", facts.method},
          {"state", state.finished ? "finished" : "running"},
          {"now", state.now},
          {"started", state.started},
          {"workers", facts.workers},
          {"first_step", facts.first_step},
          {"step", state.step},
          {"steps", facts.steps},
          {"round", facts.rounds ? Json(state.round) : Json(nullptr)},
          {"rounds", optional(facts.rounds)},
          {"waits_for", state.waits_for},
          {"step_s", state.step_s ? rounded(*state.step_s) : Json(nullptr)},
          {"left_s", left}};
}

Json print_last(const std::optional<events::StepEvent>& last) {
  if (!last) return nullptr;
  return {{"loss", rounded(last->loss)},
          {"learning_rate", rounded(last->learning_rate)},
          {"gradient_norm", rounded(last->gradient_norm)},
          {"tokens_per_second", rounded(last->tokens_per_second)}};
}

}  // namespace

std::string print_page_state(const PageState& state) {
  Json json = print_head(state);
  json["last_step"] = print_last(state.last);
  json["loss"] = {{"train", print(state.train)},
                  {"validation", print(state.validation)},
                  {"scores", print(state.scores)}};
  json["bytes_per_step"] = print_bytes(state);
  json["seconds_per_step"] = print_phases(state);
  json["time_line"] = {{"start", state.lines.start()}, {"bucket_s", state.lines.bucket_s()}};
  Json& members = json["members"] = Json::array();
  for (const auto& [id, member] : state.members) {
    members.push_back(print(member, state.lines, members.size() < kTimeLines));
  }
  Json& rounds = json["latest_rounds"] = Json::array();
  for (const ClosedRound& round : state.rounds) rounds.push_back(print(round));
  json["closed_rounds"] = state.closed_rounds;
  json["faults"] = print(state.faults);
  json["messages"] = print(state.messages);
  // ASCII only, so that no byte of a name reaches a terminal or a page unescaped.
  return print_json(json, {.ascii = true, .replace_invalid = true});
}

}  // namespace thinwire::page
