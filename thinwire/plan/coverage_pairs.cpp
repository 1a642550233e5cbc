#include "thinwire/plan/coverage_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <tuple>

#include "thinwire/base/error.h"

namespace thinwire::plan {
namespace {

using LossBySteps = std::map<int64_t, double>;

void keep_lowest(LossBySteps& losses, const LossOfRun& run) {
  double& loss = losses.try_emplace(run.steps, run.loss).first->second;
  loss = std::min(loss, run.loss);
}

std::optional<double> steps_to(double loss, const LossBySteps& losses) {
  if (losses.empty()) return std::nullopt;
  for (auto after = std::next(losses.begin()); after != losses.end(); ++after) {
    const auto before = std::prev(after);
    if (loss > before->second || loss < after->second) continue;
    const double share = (before->second - loss) / (before->second - after->second);
    const double log_steps = std::log(static_cast<double>(before->first));
    return std::exp(log_steps + share * (std::log(static_cast<double>(after->first)) - log_steps));
  }
  return std::nullopt;
}

}  // namespace

std::vector<ComparedRun> compare_with_all_reduce(std::span<const LossOfRun> runs) {
  std::map<std::string, LossBySteps> all_reduce;  // by setup
  std::map<std::tuple<std::string, int64_t, double>, double> lowest;
  for (const LossOfRun& run : runs) {
    if (run.coverage == 0) {
      keep_lowest(all_reduce[run.setup], run);
      continue;
    }
    double& loss = lowest.try_emplace({run.setup, run.steps, run.coverage}, run.loss).first->second;
    loss = std::min(loss, run.loss);
  }
  std::vector<ComparedRun> compared;
  for (const LossOfRun& run : runs) {
    if (run.coverage == 0) continue;
    const LossBySteps& losses = all_reduce[run.setup];
    const auto other = losses.find(run.steps);
    if (other == losses.end()) {
      throw UsageError(fmt::format(
          "{}: none of the runs by all-reduce has its model, text, batch, seed and {} steps",
          run.name, run.steps));
    }
    compared.push_back({run, run.loss - other->second, steps_to(run.loss, losses),
                        run.loss == lowest.at({run.setup, run.steps, run.coverage})});
  }
  return compared;
}

}  // namespace thinwire::plan
