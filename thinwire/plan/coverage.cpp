#include "thinwire/plan/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/units.h"
#include "thinwire/method/tiles.h"

namespace thinwire::plan {
namespace {

LineFit fit_logarithms(std::span<const CoverageRun> runs) {
  std::vector<Point> points;
  for (const CoverageRun& run : runs) {
    points.push_back({std::log(run.coverage()), std::log(run.gap)});
  }
  return fit_line(points);
}

}  // namespace

double coverage(const method::DistroOptions& options, std::span<const TensorSpec> tensors,
                int64_t rounds) {
  double kept = 0;
  double slots = 0;
  for (const method::TensorTiles& tensor : method::plan_tiles(tensors, options.tiles()).tensors) {
    if (tensor.rows == 1) continue;
    const auto tiles = static_cast<double>(tensor.tiles());
    kept += tiles * tensor.kept;
    slots += tiles * tensor.slots();
  }
  return slots == 0 ? 0 : static_cast<double>(rounds) * kept / slots;
}

CoverageLaw::CoverageLaw(std::span<const CoverageRun> runs)
    : runs_(runs),
      line_(fit_logarithms(runs)),
      least_(std::ranges::min(runs, {}, &CoverageRun::coverage).coverage()),
      most_(std::ranges::max(runs, {}, &CoverageRun::coverage).coverage()) {}

std::optional<ExpectedGap> CoverageLaw::gap(double coverage) const {
  if (coverage < least_) return std::nullopt;
  const double x = std::log(std::min(coverage, most_));
  const Interval range = line_.next(x);
  return ExpectedGap{std::exp(line_.at(x)), {std::exp(range.low), std::exp(range.high)}};
}

std::string CoverageLaw::runs() const {
  const auto [smallest, largest] = std::ranges::minmax(runs_, {}, &CoverageRun::parameters);
  std::string sizes = format_parameters(smallest.parameters);
  if (largest.parameters > smallest.parameters) {
    sizes += " to " + format_parameters(largest.parameters);
  }
  std::vector<std::string_view> reports;
  for (const CoverageRun& run : runs_) {
    if (std::ranges::find(reports, run.report) == reports.end()) reports.push_back(run.report);
  }
  return fmt::format("{} runs of {} parameters, in bench/results: {}", runs_.size(), sizes,
                     fmt::join(reports, ", "));
}

const CoverageLaw& coverage_law() {
  static const CoverageLaw law(coverage_runs());
  return law;
}

}  // namespace thinwire::plan
