#include "thinwire/hosts/run_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "thinwire/base/digest.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/report/table.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMemberBytes = 200 << 10;  // of an answer, which is one message
constexpr size_t kNamed = 20;                  // members that are listed by id

Json print(const MemberStatus& member) {
  return {{"id", member.id},           {"key", member.key},
          {"phase", member.phase},     {"silent_s", member.silent_s},
          {"step_s", member.step_s},   {"rows_per_second", member.rows_per_second},
          {"behind", member.behind},   {"offences", member.offences},
          {"refused", member.refused}, {"audits", member.audits},
          {"effect", member.effect}};
}

MemberStatus read_member(const Json& json) {
  return {json.at("id"),
          json.at("key"),
          json.at("phase"),
          json.at("silent_s"),
          json.at("step_s"),
          json.at("rows_per_second"),
          json.at("behind"),
          json.at("offences"),
          json.value("refused", ""),
          json.value("audits", uint64_t{0}),
          json.value("effect", 0.0)};
}

std::string why_none_is_open(const membership::State& state, uint64_t workers) {
  if (!state.open.empty()) return "";
  if (state.next_round > 0) return "members: none that can train is present";
  const auto here = std::ranges::count_if(
      state.members, [](const membership::Member& member) { return !is_gone(member.phase); });
  return fmt::format("members: {} of the {} that the run begins with are present", here, workers);
}

// What a finished run still waits for.
std::string why_not_over(const std::vector<int>& unfinished) {
  if (unfinished.empty()) return "";
  const size_t named = std::min(unfinished.size(), kNamed);
  const size_t more = unfinished.size() - named;
  return fmt::format("member{} {}{} to fetch the final weights", unfinished.size() > 1 ? "s" : "",
                     fmt::join(std::span(unfinished).first(named), ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

MemberStatus member_status(int id, const membership::Member& member, const membership::State& state,
                           const std::map<int, serve::LatestReport>& reports) {
  MemberStatus status{.id = id,
                      .key = key_id(member.key),
                      .phase = std::string(name_of(member.phase)),
                      .rows_per_second = member.rows_per_second,
                      .offences = member.offences(),
                      .refused = {}};
  const auto report = reports.find(id);
  status.behind = state.position.sequence;
  if (report == reports.end()) return status;
  status.silent_s = report->second.silent_s;
  status.step_s = report->second.step_seconds;
  status.refused = report->second.refused;
  status.audits = report->second.audits;
  status.effect = report->second.effect;
  status.behind -= std::min(report->second.position, state.position.sequence);
  return status;
}

}  // namespace

RunStatus status_of(const config::Recipe& recipe, const serve::CoordinatorHost& host,
                    uint64_t rounds) {
  const membership::State state = host.state();
  const auto reports = host.reports();
  RunStatus status;
  status.name = recipe.run.name;
  status.method = recipe.sync.method;
  status.round = state.open.empty() ? state.next_round : state.open.front().round;
  status.rounds = rounds;
  status.step = state.open.empty() ? state.next_step : state.open.front().first_step;
  status.steps = static_cast<uint64_t>(recipe.train.steps);
  status.finished = state.finished;
  status.waits_for = state.finished
                         ? why_not_over(host.unfinished())
                         : why_none_is_open(state, static_cast<uint64_t>(recipe.train.workers));
  if (const auto digest = host.final_digest()) status.digest = to_hex(*digest);
  for (size_t id = 0; id < state.members.size(); ++id) {
    status.members.push_back(
        member_status(static_cast<int>(id), state.members[id], state, reports));
  }
  return status;
}

std::string print_status(const RunStatus& status) {
  Json members = Json::array();
  size_t bytes = 0;
  for (const MemberStatus& member : status.members) {
    Json one = print(member);
    bytes += print_json(one).size() + 1;
    if (bytes > kMaxMemberBytes) break;
    members.push_back(std::move(one));
  }
  const uint64_t left_out = status.left_out + status.members.size() - members.size();
  const Json json = {
      {"name", status.name},         {"method", status.method}, {"round", status.round},
      {"rounds", status.rounds},     {"step", status.step},     {"steps", status.steps},
      {"finished", status.finished}, {"digest", status.digest}, {"waits_for", status.waits_for},
      {"members", members},          {"left_out", left_out}};
  return print_json(json);
}

Result<RunStatus> read_status(std::string_view text) {
  try {
    const Json json = parse_json<Json>(text);
    RunStatus status{json.at("name"),
                     json.at("method"),
                     json.at("round"),
                     json.at("rounds"),
                     json.at("step"),
                     json.at("steps"),
                     json.at("finished"),
                     json.at("digest"),
                     json.at("waits_for"),
                     {},
                     json.value("left_out", uint64_t{0})};
    for (const Json& member : json.at("members")) status.members.push_back(read_member(member));
    return status;
  } catch (const Json::exception& problem) {
    return fail(FailureKind::kCorruptPayload,
                fmt::format("the coordinator's answer is not a status: {}", problem.what()));
  }
}

std::vector<std::string> describe(const RunStatus& status) {
  std::vector<std::string> lines = {fmt::format(
      "{}: {}, {} {} of {}, step {} of {}{}", status.name, status.method,
      status.finished ? "finished after round" : "round", status.round, status.rounds, status.step,
      status.steps, status.digest.empty() ? "" : ", digest " + status.digest)};
  if (!status.waits_for.empty()) lines.push_back("waits for " + status.waits_for);
  report::Table table{{{"member"},
                       {"key", true},
                       {"phase", true},
                       {"last seen"},
                       {"computes"},
                       {"behind"},
                       {"offences"}},
                      {}};
  const bool audited = std::ranges::any_of(
      status.members, [](const MemberStatus& member) { return member.audits > 0; });
  if (audited) {
    table.columns.emplace_back("audits");
    table.columns.emplace_back("effect");
  }
  for (const MemberStatus& member : status.members) {
    table.rows.push_back({std::to_string(member.id), member.key, member.phase,
                          member.silent_s < 0 ? "never" : format_seconds(member.silent_s) + " ago",
                          member.step_s > 0 ? format_seconds(member.step_s) : "",
                          std::to_string(member.behind), std::to_string(member.offences)});
    if (!audited) continue;
    table.rows.back().push_back(std::to_string(member.audits));
    table.rows.back().push_back(member.audits > 0 ? fmt::format("{:.3f}", member.effect) : "");
  }
  if (!table.rows.empty()) lines.push_back(table.terminal());
  if (status.left_out > 0) {
    lines.push_back(fmt::format("and {}, for which the coordinator's answer has no room",
                                counted(status.left_out, "more member")));
  }
  for (const MemberStatus& member : status.members) {
    if (member.refused.empty()) continue;
    lines.push_back(
        fmt::format("member {}'s payload was refused in {}", member.id, member.refused));
  }
  return lines;
}

}  // namespace thinwire::hosts
