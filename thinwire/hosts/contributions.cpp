#include "thinwire/hosts/contributions.h"

#include <fmt/format.h>

#include <algorithm>
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

}  // namespace

Contributions::Contributions(fs::path file) : file_(std::move(file)) {
  if (!fs::exists(file_)) return;
  const Lock lock(mutex_);
  try {
    const Json json = parse_json<Json>(read_text_file(file_));
    for (const auto& [member, seconds] : json.at("seconds").items()) {
      times_.counted[std::stoi(member)] = seconds.get<double>();
    }
  } catch (const std::exception& problem) {
    throw Error(fmt::format("{} is damaged ({}); delete it: only the members' times are lost",
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
// come.
void Contributions::close(const membership::Closing& closing) {
  const auto opening = open_.find(closing.round);
  if (opening == open_.end()) return;
  std::set<std::pair<int, uint64_t>> counted;
  for (const Commit& commit : closing.commits) {
    for (const Contribution& one : commit.contributions) {
      Contributed& sum = all_[one.member];
      sum.bytes += one.bytes;
      if (counted.emplace(one.member, one.round).second) sum.rows += one.weight;
    }
  }
  if (closing.commits.empty()) {  // a round that ends for an evaluation
    for (const membership::Share& share : opening->second.roster) {
      all_[share.member].rows += membership::weight_of(opening->second, share.member);
    }
  }
  for (const auto& name : counted) {
    const auto waiting = times_.waiting.find(name);
    if (waiting == times_.waiting.end()) continue;
    times_.counted[name.first] += waiting->second;
    times_.changed = true;
    times_.waiting.erase(waiting);
  }
  open_.erase(opening);
  std::erase_if(times_.waiting, [&](const auto& one) {  // what is this late does not count
    return one.first.second + 1000 < closing.round;
  });
}

void Contributions::offered(const membership::Offer& offer) {
  if (offer.seconds <= 0) return;
  const Lock lock(mutex_);
  if (times_.waiting.size() >= kMostWaiting) return;
  double& seconds = times_.waiting[{offer.member, offer.round}];
  seconds = std::max(seconds, offer.seconds);
}

void Contributions::keep(double now) {
  if (now - kept_at_ < kEverySeconds) return;
  kept_at_ = now;
  keep_last();
}

void Contributions::keep_last() {
  Json seconds = Json::object();
  {
    const Lock lock(mutex_);
    if (!times_.changed) return;
    times_.changed = false;
    for (const auto& [member, time] : times_.counted) seconds[std::to_string(member)] = time;
  }
  write_file(file_, print_json(Json{{"seconds", seconds}}) + "\n");
}

std::map<int, Contributed> Contributions::all() const {
  const Lock lock(mutex_);
  std::map<int, Contributed> all = all_;
  for (auto& [member, one] : all) {
    const auto time = times_.counted.find(member);
    if (time != times_.counted.end()) one.seconds = time->second;
  }
  return all;
}

}  // namespace thinwire::hosts
