#include "thinwire/hosts/run_end.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/events/progress.h"
#include "thinwire/membership/options.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::hosts {

std::optional<uint64_t> MemberResults::digest() const {
  std::map<std::string, int> votes;
  for (const auto& [key, summary] : all_) ++votes[summary.digest];
  if (votes.empty()) return std::nullopt;
  const std::string& text =
      std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
  uint64_t digest = 0;
  std::from_chars(text.data(), text.data() + text.size(), digest, 16);
  return digest;
}

void MemberResults::take_means(Values events::Summary::*values, events::Summary& summary) const {
  for (auto& [name, value] : summary.*values) {
    double sum = 0;
    for (const auto& [key, one] : all_) {
      const auto own = (one.*values).find(name);
      const bool has = own != (one.*values).end();
      sum += has ? own->second : std::numeric_limits<double>::quiet_NaN();
    }
    value = sum / static_cast<double>(all_.size());
  }
}

events::Summary MemberResults::summarise(uint64_t digest, uint64_t steps) const {
  const auto mean = [&](double events::Summary::*field) {
    double sum = 0;
    for (const auto& [key, summary] : all_) sum += summary.*field;
    return sum / static_cast<double>(all_.size());
  };
  const auto specs = method::tensors_of(recipe_);
  events::Summary summary;
  summary.train_loss = std::numeric_limits<double>::quiet_NaN();
  if (!all_.empty()) {
    summary = all_.begin()->second;
    for (const auto field :
         {&events::Summary::train_loss, &events::Summary::bytes_sent_per_worker_step,
          &events::Summary::bytes_received_per_worker_step, &events::Summary::seconds,
          &events::Summary::seconds_over_links}) {
      summary.*field = mean(field);
    }
    take_means(&events::Summary::val_loss, summary);
    // Scores that are no means over texts cannot be formed from the members' scores.
    std::erase_if(summary.scores, [](const auto& score) { return !score.first.ends_with(".acc"); });
    take_means(&events::Summary::scores, summary);
  }
  summary.name = recipe_.run.name;
  summary.method = recipe_.sync.method;
  summary.within = name_of(recipe_.sync.within);
  summary.workers = recipe_.train.workers;
  summary.steps = static_cast<int64_t>(steps);
  summary.tokens = summary.steps * recipe_.train.batch * recipe_.train.sequence;
  summary.params = method::parameter_count(specs);
  summary.params_non_embedding = method::non_embedding_count(specs);
  summary.digest = to_hex(digest);
  return summary;
}

namespace {

constexpr double kResultsSeconds = 20;  // for members to report their results

}  // namespace

void RunEnd::note(const membership::State& state) {
  if (!state.finished) return;
  finishers_.clear();
  for (size_t id = 0; id < state.members.size(); ++id) {
    if (is_gone(state.members[id].phase)) continue;
    finishers_.emplace(static_cast<int>(id), state.members[id].key);
  }
}

std::string RunEnd::waiting_message(const serve::CoordinatorHost& host) {
  if (told_ || !host.final_digest()) return "";
  const std::vector<int> unfinished = host.unfinished();
  const membership::Options times = membership::options_of(recipe_.sync);
  const auto reports = host.reports();
  const bool all_away = std::ranges::all_of(unfinished, [&](int member) {
    const auto one = reports.find(member);
    return one == reports.end() || one->second.silent_s >= times.silence_s();
  });
  if (unfinished.empty() || !all_away) return "";
  const bool any_heard =
      std::ranges::any_of(unfinished, [&](int member) { return reports.contains(member); });
  told_ = true;
  return fmt::format(
      "the run is complete; it is still served, for at most {}, so that member{} {} can fetch the "
      "final weights; Ctrl-C ends it now",
      format_seconds(any_heard ? times.linger_s() : times.silence_s()),
      unfinished.size() > 1 ? "s" : "", fmt::join(unfinished, ", "));
}

std::string RunEnd::lacking_message(const serve::CoordinatorHost& host) {
  const std::vector<int> unfinished = host.unfinished();
  if (unfinished.empty()) return "";
  const bool several = unfinished.size() > 1;
  return fmt::format(
      "member{} {} lack{} the final weights and can no longer fetch them; the same command serves "
      "them again",
      several ? "s" : "", fmt::join(unfinished, ", "), several ? "" : "s");
}

std::string RunEnd::note_lacking(const serve::CoordinatorHost& host, const fs::path& file) {
  std::string text = lacking_message(host);
  if (text.empty()) {
    fs::remove(file);
  } else {
    write_file(file, text + "\n");
  }
  return text;
}

bool RunEnd::awaits_results(const serve::CoordinatorHost& host, double now) {
  if (!quiet_since_) quiet_since_ = now;
  const auto reports = host.reports();
  const double silence_s = membership::options_of(recipe_.sync).silence_s();
  bool all = true;
  for (const auto& [id, key] : finishers_) {
    if (results_.has(key)) continue;
    all = false;
    const auto report = reports.find(id);
    const bool there = report != reports.end() && !report->second.left &&
                       !report->second.disconnected && report->second.silent_s < silence_s;
    if (there) quiet_since_ = now;
  }
  return (!all || !digest(host)) && now - *quiet_since_ < kResultsSeconds;
}

std::optional<uint64_t> RunEnd::digest(const serve::CoordinatorHost& host) const {
  const auto reported = results_.digest();
  return reported ? reported : host.final_digest();
}

void write_run_summary(const fs::path& file, const events::Summary& summary,
                       const RunStatus& status) {
  using Json = nlohmann::ordered_json;
  Json json = parse_json<Json>(events::print_summary(summary));
  if (status.delta > 0) {
    json["privacy"] = {{"sums", status.sums}, {"epsilon", status.epsilon}, {"delta", status.delta}};
  }
  Json& all = json["members"] = Json::array();
  for (const MemberStatus& member : status.members) {
    all.push_back({{"id", member.id},
                   {"key", member.key},
                   {"machine", member.machine},
                   {"rows", member.contributed.rows},
                   {"bytes", member.contributed.bytes},
                   {"hours", member.contributed.hours()},
                   {"kilowatt_hours", member.contributed.kilowatt_hours()},
                   {"co2_kg", member.contributed.co2_kg()}});
  }
  write_file(file, print_json(json, {.indent = 2}) + "\n");
}

std::vector<std::string> describe_contributions(const std::vector<MemberStatus>& members) {
  std::vector<std::string> lines;
  for (const MemberStatus& member : members) {
    const Contributed& one = member.contributed;
    if (one.rows == 0) continue;
    const std::string& label = member.machine.empty() ? member.key : member.machine;
    lines.push_back(
        fmt::format("member {} ({}) contributed {}", member.id, label, counted(one.rows, "row")));
    // Members of a private run do not say it.
    if (one.spent.seconds > 0) {
      lines.back() += fmt::format(" in {} of computing", format_seconds(one.spent.seconds));
    }
    lines.back() += ", and sent " + format_bytes(static_cast<double>(one.bytes));
    if (one.spent.joules > 0) lines.back() += ", with " + format_energy(one);
    if (one.spent.grams > 0) lines.back() += " and " + format_co2(one) + " of CO2";
  }
  return lines;
}

}  // namespace thinwire::hosts
