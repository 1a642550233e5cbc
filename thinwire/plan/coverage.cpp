#include "thinwire/plan/coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/units.h"
#include "thinwire/method/tiles.h"

namespace thinwire::plan {
namespace {

GapLine fit_runs(std::span<const CoverageRun> runs) {
  std::vector<CoveredGap> gaps;
  gaps.reserve(runs.size());
  for (const CoverageRun& run : runs) gaps.push_back({run.coverage(), run.gap, run.lead});
  return fit_gaps(gaps);
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

std::string CoverageRun::name() const {
  return fmt::format("{}, {} steps, k {}", format_parameters(parameters), steps, k);
}

ExpectedGap GapLine::at(double coverage, double lead) const {
  const double x = std::log(coverage);
  const Interval range = line.next(x);
  return {std::exp(line.at(x)) - lead, {std::exp(range.low) - lead, std::exp(range.high) - lead}};
}

ExpectedGap GapLine::at(double coverage) const {
  ExpectedGap gap = at(coverage, mean_lead);
  gap.range.low -= leads.high - mean_lead;
  gap.range.high += mean_lead - leads.low;
  return gap;
}

GapLine fit_gaps(std::span<const CoveredGap> gaps) {
  GapLine fit;
  fit.leads = {gaps.front().lead, gaps.front().lead};
  std::vector<Point> points;
  points.reserve(gaps.size());
  for (const CoveredGap& one : gaps) {
    points.push_back({std::log(one.coverage), std::log(one.gap + one.lead)});
    fit.mean_lead += one.lead / static_cast<double>(gaps.size());
    fit.leads = {std::min(fit.leads.low, one.lead), std::max(fit.leads.high, one.lead)};
  }
  fit.line = fit_line(points);
  return fit;
}

CoverageLaw::CoverageLaw(std::span<const CoverageRun> runs)
    : runs_(runs),
      line_(fit_runs(runs)),
      least_(std::ranges::min(runs, {}, &CoverageRun::coverage).coverage()),
      most_(std::ranges::max(runs, {}, &CoverageRun::coverage).coverage()) {}

std::optional<ExpectedGap> CoverageLaw::gap(double coverage) const {
  if (coverage < least_) return std::nullopt;
  return line_.at(std::min(coverage, most_));
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

const CoverageLaw* coverage_law(method::DistroUpdate update) {
  using method::DistroUpdate;
  static const CoverageLaw sign(coverage_runs(DistroUpdate::kSign));
  static const CoverageLaw muon(coverage_runs(DistroUpdate::kMuon));
  if (update == DistroUpdate::kSign) return &sign;
  return update == DistroUpdate::kMuon ? &muon : nullptr;
}

}  // namespace thinwire::plan
