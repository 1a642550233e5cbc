#include "thinwire/hosts/run_status.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/hosts/key_ring.h"
#include "thinwire/hosts/requests.h"
#include "thinwire/hosts/self_check.h"
#include "thinwire/hosts/shared_recipe.h"
#include "thinwire/membership/options.h"
#include "thinwire/method/privacy/privacy.h"
#include "thinwire/report/table.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxMemberBytes = 240 << 10;  // of an answer, which is one message
constexpr size_t kNamed = 20;                  // members that are listed by id

Json print(const MemberStatus& member) {
  Json json = {{"id", member.id},
               {"key", member.key},
               {"machine", member.machine},
               {"phase", member.phase},
               {"silent_s", member.silent_s},
               {"step_s", member.step_s},
               {"rows_per_second", member.rows_per_second},
               {"behind", member.behind},
               {"offences", member.offences},
               {"rows", member.contributed.rows},
               {"bytes", member.contributed.bytes},
               {"hours", member.contributed.hours()},
               {"kilowatt_hours", member.contributed.kilowatt_hours()},
               {"co2_kg", member.contributed.co2_kg()},
               {"refused", member.refused},
               {"audits", member.audits},
               {"effect", member.effect}};
  if (member.own_rows > 0) json["own_rows"] = member.own_rows;
  return json;
}

MemberStatus read_member(const Json& json) {
  return {json.at("id"),
          json.at("key"),
          json.value("machine", ""),
          json.at("phase"),
          json.at("silent_s"),
          json.at("step_s"),
          json.at("rows_per_second"),
          json.value("own_rows", uint64_t{0}),
          json.at("behind"),
          json.at("offences"),
          {json.value("rows", uint64_t{0}),
           json.value("bytes", uint64_t{0}),
           {json.value("hours", 0.0) * 3600, json.value("kilowatt_hours", 0.0) * 3.6e6,
            json.value("co2_kg", 0.0) * 1000}},
          json.value("refused", ""),
          json.value("audits", uint64_t{0}),
          json.value("effect", 0.0)};
}

// "member 3" or "members 1, 4 and 12 more".
std::string list_of(const std::vector<int>& members) {
  const size_t named = std::min(members.size(), kNamed);
  const size_t more = members.size() - named;
  return fmt::format("member{} {}{}", members.size() > 1 ? "s" : "",
                     fmt::join(std::span(members).first(named), ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string why_none_trains(const membership::State& state, uint64_t workers) {
  std::vector<int> lost;
  uint64_t here = 0;
  for (size_t id = 0; id < state.members.size(); ++id) {
    if (!is_gone(state.members[id].phase)) ++here;
    if (state.members[id].phase == membership::Phase::kLost) lost.push_back(static_cast<int>(id));
  }
  if (state.next_round == 0) {
    return fmt::format("members: {} of the {} that the run begins with are present", here, workers);
  }
  if (lost.empty()) return "members: none that can train is present";
  return fmt::format("members: none that can train is present; {} {} lost", list_of(lost),
                     lost.size() > 1 ? "are" : "is");
}

// Who is missing in the oldest open round, and is away. Those that the run has lost or that have
// left it are not waited for.
std::string who_is_away(const membership::State& state, const serve::CoordinatorHost& host,
                        double absent_s) {
  const auto reports = host.reports();
  const membership::Opening& open = state.open.front();
  std::vector<int> silent, disconnected;
  for (const membership::Share& share : open.roster) {
    if (is_gone(state.members[static_cast<size_t>(share.member)].phase)) continue;
    const auto found = reports.find(share.member);
    const serve::LatestReport* report = found == reports.end() ? nullptr : &found->second;
    if (report != nullptr && report->arrived && *report->arrived >= open.round) continue;
    if (report != nullptr && report->disconnected) {
      disconnected.push_back(share.member);
    } else if (report == nullptr || report->silent_s >= absent_s) {
      silent.push_back(share.member);
    }
  }
  std::vector<std::string> who;
  if (!disconnected.empty()) {
    who.push_back(fmt::format("{}, which {} no longer connected", list_of(disconnected),
                              disconnected.size() > 1 ? "are" : "is"));
  }
  if (!silent.empty()) {
    who.push_back(
        fmt::format("{}, silent for more than {}", list_of(silent), format_seconds(absent_s)));
  }
  return fmt::format("{}", fmt::join(who, "; and for "));
}

bool is_deserted(const membership::State& state) {
  return std::ranges::all_of(state.open.front().roster, [&](const membership::Share& share) {
    return is_gone(state.members[static_cast<size_t>(share.member)].phase);
  });
}

// What a finished run still waits for.
std::string why_not_over(const std::vector<int>& unfinished) {
  return unfinished.empty() ? "" : list_of(unfinished) + " to fetch the final weights";
}

MemberStatus member_status(int id, const membership::Member& member,
                           const std::map<int, serve::LatestReport>& reports,
                           config::RowShares shares) {
  const bool own = shares == config::RowShares::kOwn;
  MemberStatus status{.id = id,
                      .key = key_id(member.key),
                      .phase = std::string(name_of(member.phase)),
                      .rows_per_second = own ? 0 : member.rows_per_second,
                      .own_rows = own ? static_cast<uint64_t>(member.rows_per_second) : 0,
                      .offences = member.offences(),
                      .refused = {}};
  const auto report = reports.find(id);
  if (report == reports.end()) return status;
  status.silent_s = report->second.silent_s;
  status.step_s = report->second.step_seconds;
  status.refused = report->second.refused;
  status.audits = report->second.audits;
  status.effect = report->second.effect;
  status.behind = report->second.behind;
  return status;
}

}  // namespace

std::string waits_for(const config::Recipe& recipe, const serve::CoordinatorHost& host,
                      const std::string& obstacle) {
  if (!obstacle.empty()) return obstacle;
  if (std::string text = host.waits_for(); !text.empty()) return text;
  const membership::State state = host.state();
  if (state.finished) return why_not_over(host.unfinished());
  if (state.open.empty() || is_deserted(state)) {
    return why_none_trains(state, static_cast<uint64_t>(recipe.train.workers));
  }
  return who_is_away(state, host, membership::options_of(recipe.sync).absent_s());
}

RunStatus status_of(const config::Recipe& recipe, const serve::CoordinatorHost& host,
                    uint64_t rounds, const std::string& obstacle, const MachineOf& machine_of,
                    const std::map<int, Contributed>& contributed) {
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
  status.waits_for = waits_for(recipe, host, obstacle);
  if (const auto digest = host.final_digest()) status.digest = to_hex(*digest);
  for (size_t id = 0; id < state.members.size(); ++id) {
    status.members.push_back(
        member_status(static_cast<int>(id), state.members[id], reports, recipe.sync.shares));
    status.members.back().machine = machine_of(state.members[id].key);
    const auto own = contributed.find(static_cast<int>(id));
    if (own != contributed.end()) status.members.back().contributed = own->second;
  }
  return status;
}

void add_privacy(const config::PrivacySection& privacy, const membership::RunPlan& plan,
                 RunStatus& status) {
  if (!privacy.noisy()) return;
  for (uint64_t round = 0; round < std::min(status.round, plan.rounds()); ++round) {
    const membership::Opening planned = plan.round(round);
    status.sums += static_cast<uint64_t>(std::ranges::count_if(
        planned.operations, method::is_own_fragment, &membership::PlannedOperation::fragment));
  }
  status.delta = privacy.delta;
  status.epsilon = method::epsilon_of(method::mechanism_of(privacy), status.sums, privacy.delta);
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
      {"name", status.name},         {"method", status.method},   {"round", status.round},
      {"rounds", status.rounds},     {"step", status.step},       {"steps", status.steps},
      {"finished", status.finished}, {"digest", status.digest},   {"waits_for", status.waits_for},
      {"sums", status.sums},         {"epsilon", status.epsilon}, {"delta", status.delta},
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
                     json.value("sums", uint64_t{0}),
                     json.value("epsilon", 0.0),
                     json.value("delta", 0.0),
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
  if (status.delta > 0) {
    lines.push_back(
        fmt::format("what a member's contributions to {} tell of its text: epsilon "
                    "{:.4g} at delta {:g}",
                    counted(status.sums, "sum"), status.epsilon, status.delta));
  }
  report::Table table{{{"member"},
                       {"machine", true},
                       {"key", true},
                       {"phase", true},
                       {"last seen"},
                       {"computes"},
                       {"rows"},
                       {"sent"},
                       {"hours"},
                       {"behind"},
                       {"offences"}},
                      {}};
  const bool audited = std::ranges::any_of(
      status.members, [](const MemberStatus& member) { return member.audits > 0; });
  if (audited) {
    table.columns.emplace_back("audits");
    table.columns.emplace_back("effect");
  }
  const bool metered = std::ranges::any_of(status.members, [](const MemberStatus& member) {
    return member.contributed.spent.joules > 0;
  });
  if (metered) {
    table.columns.emplace_back("energy");
    table.columns.emplace_back("CO2");
  }
  for (const MemberStatus& member : status.members) {
    table.rows.push_back({std::to_string(member.id), member.machine, member.key, member.phase,
                          member.silent_s < 0 ? "never" : format_seconds(member.silent_s) + " ago",
                          member.step_s > 0 ? format_seconds(member.step_s) : "",
                          std::to_string(member.contributed.rows),
                          format_bytes(static_cast<double>(member.contributed.bytes)),
                          fmt::format("{:.2f}", member.contributed.hours()),
                          std::to_string(member.behind), std::to_string(member.offences)});
    auto& row = table.rows.back();
    if (audited) {
      row.push_back(std::to_string(member.audits));
      row.push_back(member.audits > 0 ? fmt::format("{:.3f}", member.effect) : "");
    }
    if (metered) {
      row.push_back(format_energy(member.contributed));
      row.push_back(format_co2(member.contributed));
    }
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

namespace {

constexpr int64_t kTimedSteps = 5;

// A connection made with a token, without enrolling a key.
class TokenConnection {
 public:
  explicit TokenConnection(const Access& access)
      : access_(access),
        signer_(make_signer(access.newcomer.seed)),
        courier_(connect(access_, access.newcomer)),
        requests_(*courier_, access.founder, *signer_) {
    const double wait_s = access.patience().answer_s;
    requests_.be_patient(
        {.wait_s = wait_s, .begins = [this, wait_s] {
           access_.message(
               fmt::format("the run's coordinator has not answered yet; waits for it, up to {}",
                           format_seconds(wait_s)));
         }});
  }

  transport::Courier& courier() { return *courier_; }
  RequestClient& requests() { return requests_; }
  std::string ask(RequestKind what) {
    const Result<Bytes> answer = requests_.ask(what, {}, kPromptSeconds);
    if (answer) return {answer->begin(), answer->end()};
    throw Error(fmt::format("the run at {}: {}", access_.address(), answer.error().message));
  }

 private:
  Access access_;
  const std::unique_ptr<Signer> signer_;
  const std::unique_ptr<transport::Courier> courier_;
  RequestClient requests_;  // destroyed first
};

}  // namespace

RunStatus ask_status(const Access& access) {
  TokenConnection connection(access);
  Result<RunStatus> status = read_status(connection.ask(RequestKind::kStatus));
  if (!status) throw Error(status.error().message);
  return std::move(*status);
}

std::vector<std::string> diagnose(const Access& access, const std::vector<std::string>& overrides,
                                  double memory_bytes) {
  check_local_overrides(overrides);
  TokenConnection connection(access);
  const config::Recipe recipe =
      member_recipe(connection.ask(RequestKind::kRecipe), overrides, {}, {});
  const auto link =
      access.approach->measure(access, connection.courier(), connection.requests(), {});
  return describe(
      check_self(recipe, link,
                 {.steps = kTimedSteps, .cap_bytes = memory_bytes, .message = access.message}),
      recipe);
}

}  // namespace thinwire::hosts
