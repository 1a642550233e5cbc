#include "thinwire/hosts/contributions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/membership/state.h"

namespace thinwire::hosts {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostWaiting = 100'000;  // offers; members may make any

struct SpentField {
  const char* name;  // in the file, where it has the amounts by member
  double membership::Spent::*amount;
  bool required;
};
constexpr std::array<SpentField, 3> kFields{{{"seconds", &membership::Spent::seconds, true},
                                             {"joules", &membership::Spent::joules, false},
                                             {"grams", &membership::Spent::grams, false}}};

// Three digits, in the larger unit from 0.1 of it on.
std::string format_amount(double amount, const char* unit, const char* thousandth) {
  if (amount == 0) return "";
  return amount >= 0.1 ? fmt::format("{:.3g} {}", amount, unit)
                       : fmt::format("{:.3g} {}", 1000 * amount, thousandth);
}

}  // namespace

std::string format_energy(const Contributed& contributed) {
  return format_amount(contributed.kilowatt_hours(), "kWh", "Wh");
}

std::string format_co2(const Contributed& contributed) {
  return format_amount(contributed.co2_kg(), "kg", "g");
}

std::string on_speeds(const std::map<int, Contributed>& contributed) {
  constexpr double kLeastSeconds = 60, kApart = 1.5;
  double slowest = 0, fastest = 0;
  for (const auto& [member, one] : contributed) {
    if (one.spent.seconds < kLeastSeconds || one.rows == 0) continue;
    const double speed = static_cast<double>(one.rows) / one.spent.seconds;
    slowest = fastest == 0 ? speed : std::min(slowest, speed);
    fastest = std::max(fastest, speed);
  }
  if (fastest == 0 || fastest < kApart * slowest) return "";
  return fmt::format(
      "the fastest member computes {:.1f} times as fast as the slowest, for which all wait: a run "
      "with sync.shares = \"speed\" divides its rows by that",
      fastest / slowest);
}

Contributions::Contributions(fs::path file) : file_(std::move(file)) {
  if (!fs::exists(file_)) return;
  const Lock lock(mutex_);
  try {
    const Json json = parse_json<Json>(read_text_file(file_));
    for (const SpentField& field : kFields) {
      if (!field.required && !json.contains(field.name)) continue;  // an older file
      for (const auto& [member, amount] : json.at(field.name).items()) {
        spent_.counted[std::stoi(member)].*field.amount = amount.get<double>();
      }
    }
  } catch (const std::exception& problem) {
    throw Error(
        fmt::format("{} is damaged ({}); delete it: only the members' hours and energy are lost",
                    file_.string(), problem.what()));
  }
}

void Contributions::record(const membership::Record& record) {
  const Lock lock(mutex_);
  if (record.sequence == 1) {  // the ledger is read anew
    open_.clear();
    all_.clear();
  }
  if (record.closing) close(*record.closing);
  for (const membership::Opening& opening : record.openings) open_[opening.round] = opening;
}

// A late contribution counts as many rows as it had in its own round, once, whatever fragments
// come. Rounds without steps belong to the rows of the one before.
void Contributions::close(const membership::Closing& closing) {
  const auto opening = open_.find(closing.round);
  if (opening == open_.end()) return;
  const bool has_rows = !opening->second.steps.empty();
  std::set<std::pair<int, uint64_t>> counted;
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) {
      Contributed& sum = all_[one.member];
      sum.bytes += one.bytes;
      if (counted.emplace(one.member, one.round).second && has_rows) sum.rows += one.weight;
    }
  }
  if (closing.commits.empty()) {  // a round that ends for an evaluation
    for (const membership::Share& share : opening->second.roster) {
      all_[share.member].rows += membership::weight_of(opening->second, share.member);
    }
  }
  for (const auto& name : counted) {
    const auto waiting = spent_.waiting.find(name);
    if (waiting == spent_.waiting.end()) continue;
    spent_.counted[name.first] += waiting->second;
    spent_.changed = true;
    spent_.waiting.erase(waiting);
  }
  open_.erase(opening);
  std::erase_if(spent_.waiting, [&](const auto& one) {  // what is this late does not count
    return one.first.second + 1000 < closing.round;
  });
}

void Contributions::offered(const membership::Offer& offer) {
  if (offer.spent == membership::Spent()) return;
  const Lock lock(mutex_);
  if (spent_.waiting.size() >= kMostWaiting) return;
  membership::Spent& most = spent_.waiting[{offer.member, offer.round}];
  for (const SpentField& field : kFields) {
    most.*field.amount = std::max(most.*field.amount, offer.spent.*field.amount);
  }
}

void Contributions::keep(double now) {
  if (now - kept_at_ < kEverySeconds) return;
  kept_at_ = now;
  keep_last();
}

void Contributions::keep_last() {
  Json json = Json::object();
  for (const SpentField& field : kFields) json[field.name] = Json::object();
  {
    const Lock lock(mutex_);
    if (!spent_.changed) return;
    spent_.changed = false;
    for (const auto& [member, spent] : spent_.counted) {
      for (const SpentField& field : kFields) {
        if (spent.*field.amount > 0) {
          json[field.name][std::to_string(member)] = spent.*field.amount;
        }
      }
    }
  }
  write_file(file_, print_json(json) + "\n");
}

std::map<int, Contributed> Contributions::all() const {
  const Lock lock(mutex_);
  std::map<int, Contributed> all = all_;
  for (auto& [member, one] : all) {
    const auto spent = spent_.counted.find(member);
    if (spent != spent_.counted.end()) one.spent = spent->second;
  }
  return all;
}

}  // namespace thinwire::hosts
