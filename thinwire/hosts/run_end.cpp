#include "thinwire/hosts/run_end.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "thinwire/base/units.h"
#include "thinwire/membership/options.h"

namespace thinwire::hosts {
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
  told_ = true;
  return fmt::format(
      "the run is complete; it is still served, for at most {}, so that member{} {} can fetch the "
      "final weights; Ctrl-C ends it now",
      format_seconds(times.linger_s()), unfinished.size() > 1 ? "s" : "",
      fmt::join(unfinished, ", "));
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
    const bool there =
        report != reports.end() && !report->second.left && report->second.silent_s < silence_s;
    if (there) quiet_since_ = now;
  }
  return (!all || !digest(host)) && now - *quiet_since_ < kResultsSeconds;
}

std::optional<uint64_t> RunEnd::digest(const serve::CoordinatorHost& host) const {
  const auto reported = results_.digest();
  return reported ? reported : host.final_digest();
}

}  // namespace thinwire::hosts
