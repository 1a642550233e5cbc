#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/methods/distro/coverage_plan.h"

namespace thinwire::plan {
namespace {

constexpr double kTolerance = 1e-12;

// Steps, k and gaps of ten runs; the expected values are from numpy.polyfit and the textbook's
// formulas.
TEST(CoverageLaw, IsALineThroughTheLogarithms) {
  std::vector<CoverageRun> runs;
  const auto add = [&](int64_t steps, int64_t k, double gap) {
    runs.push_back({4e5, steps, k, 4096, gap, "a.md"});
  };
  add(1200, 1, 1.000);
  add(1200, 3, 0.773);
  add(1200, 6, 0.622);
  add(1200, 24, 0.305);
  add(1200, 96, 0.173);
  add(1200, 384, 0.151);
  add(600, 3, 0.912);
  add(600, 3, 0.849);
  add(12'000, 3, 0.255);
  add(12'000, 24, 0.057);
  const CoverageLaw law(runs);
  EXPECT_NEAR(law.line().line.slope, -0.41704910772254483, 1e-9);
  EXPECT_NEAR(law.gap(1)->nats, 0.6561741872696567, 1e-6);
  EXPECT_NEAR(law.gap(10)->nats, 0.2511713120836014, 1e-6);
  EXPECT_NEAR(law.gap(10)->range.low, 0.11802920554450363, 1e-4);
  EXPECT_NEAR(law.gap(10)->range.high, 0.5345035385331857, 1e-4);
}

TEST(CoverageLaw, SaysNothingBeyondTheRuns) {
  const std::vector<CoverageRun> runs = {{1e6, 1000, 4, 4096, 0.8, "a.md"},
                                         {1e6, 1000, 16, 4096, 0.4, "a.md"},
                                         {2e6, 1000, 64, 4096, 0.2, "b.md"}};
  const CoverageLaw law(runs);
  EXPECT_NEAR(law.gap(runs[1].coverage())->nats, 0.4, kTolerance);
  EXPECT_FALSE(law.gap(0.99 * runs[0].coverage())) << "a shorter run than any";
  EXPECT_DOUBLE_EQ(law.gap(1000)->nats, law.gap(runs[2].coverage())->nats) << "a longer one";
  EXPECT_EQ(law.runs(), "3 runs of 1.00 M to 2.00 M parameters, in bench/results: a.md, b.md");
}

// Gaps and coverages of five runs, one of which ends ahead; the expected values are from
// numpy.polyfit through log(gap + 0.15) and the textbook's formulas.
TEST(CoverageLaw, WithALeadFollowsGapsBelowZero) {
  const std::vector<CoveredGap> gaps = {{0.9, 0.40, 0.15},
                                        {1.8, 0.27, 0.15},
                                        {3.7, 0.19, 0.15},
                                        {7.3, 0.11, 0.15},
                                        {30, -0.02, 0.15}};
  const GapLine line = fit_gaps(gaps);
  EXPECT_NEAR(line.line.slope, -0.4064257167164035, 1e-9);
  EXPECT_NEAR(line.at(1).nats, 0.39734565060542815, 1e-9);
  EXPECT_NEAR(line.at(60).nats, -0.04634857551007687, 1e-9);
  EXPECT_NEAR(line.at(60).range.low, -0.07322380387204806, 1e-4);
  EXPECT_NEAR(line.at(60).range.high, -0.010065771155354203, 1e-4);
}

TEST(CoverageLaw, AllowsForTheLeadsOfAllModels) {
  const std::vector<CoveredGap> gaps = {
      {1, 0.3, 0.1}, {4, 0.05, 0.2}, {16, 0.0, 0.1}, {16, -0.1, 0.2}};
  const GapLine line = fit_gaps(gaps);
  EXPECT_NEAR(line.mean_lead, 0.15, kTolerance);
  const ExpectedGap known = line.at(4, 0.1);
  const ExpectedGap any = line.at(4);
  EXPECT_NEAR(any.nats, known.nats - 0.05, kTolerance);
  EXPECT_NEAR(any.range.low, known.range.low - 0.1, kTolerance) << "the largest lead";
  EXPECT_NEAR(any.range.high, known.range.high, kTolerance) << "the smallest";
}

TEST(CoverageLaw, RestsOnReportsThatExist) {
  for (const auto update : {method::DistroUpdate::kSign, method::DistroUpdate::kMuon}) {
    EXPECT_GE(coverage_runs(update).size(), 10U);
    for (const CoverageRun& run : coverage_runs(update)) {
      const auto file = tests::source_file("bench/results/" + std::string(run.report));
      EXPECT_TRUE(std::filesystem::exists(file)) << file;
      EXPECT_GT(run.gap, -run.lead);
    }
  }
  for (const auto update : {method::DistroUpdate::kAdamW, method::DistroUpdate::kSgd}) {
    EXPECT_TRUE(coverage_runs(update).empty());
    EXPECT_EQ(coverage_law(update), nullptr);
  }
}

// As docs/planner.md prints it.
TEST(CoverageLaw, OfSignsIsThatOfTheDocs) {
  const CoverageLaw& law = *coverage_law(method::DistroUpdate::kSign);
  EXPECT_EQ(law.line().leads.high, 0);
  EXPECT_NEAR(law.gap(1)->nats, 0.587, 5e-4);
  EXPECT_NEAR(law.line().line.slope, -0.477, 5e-4);
}

TEST(Coverage, IsWhatAWorkerCanSendOfEachCoefficient) {
  const std::vector<TensorSpec> tensors = {{"matrix", {128, 192}}, {"norm", {128}}};
  method::DistroOptions options;
  options.k = 3;
  EXPECT_DOUBLE_EQ(coverage(options, tensors, 12'000), 12'000 * 3 / 4096.0);
  // Tiles of 32 x 32 keep at least one coefficient each.
  options.chunk = 32;
  options.k = 1;
  EXPECT_DOUBLE_EQ(coverage(options, tensors, 1024), 1);
  EXPECT_EQ(coverage(options, std::span(tensors).subspan(1), 1024), 0) << "no matrix";
}

}  // namespace
}  // namespace thinwire::plan
