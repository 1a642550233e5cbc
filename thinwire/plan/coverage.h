// The expected gap in loss between DisTrO and AdamW with all-reduce, from runs of both on the same
// tokens. The measured gaps follow coverage: how often one worker can send each coefficient of its
// momentum in a run, whatever the number of workers. The runs are in coverage_runs.cpp, and the law
// is a straight line through the logarithms of their gaps and coverages.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/tensor_view.h"
#include "thinwire/method/distro.h"
#include "thinwire/plan/line_fit.h"

namespace thinwire::plan {

// A run with DisTrO, compared with one with AdamW and all-reduce that had the same model, text,
// tokens and steps.
struct CoverageRun {
  double parameters = 0;
  int64_t steps = 0;
  int64_t k = 0;            // coefficients sent of a tile
  int64_t slots = 0;        // of a tile
  double gap = 0;           // nats per token by which DisTrO's loss on held-out text is higher
  std::string_view report;  // in bench/results

  double coverage() const { return static_cast<double>(steps * k) / static_cast<double>(slots); }
};
std::span<const CoverageRun> coverage_runs();

// Rounds times the share of the matrices' coefficients that a round's payload holds at most. The
// tensors are those of the gradients as the optimizer takes them (method::gradient_tensors).
double coverage(const method::DistroOptions& options, std::span<const TensorSpec> tensors,
                int64_t rounds);

// In nats per token, with the range that holds 95 % of such runs.
struct ExpectedGap {
  double nats = 0;
  Interval range;
};

// gap = exp(intercept) coverage^slope, within the coverages of the runs.
class CoverageLaw {
 public:
  // At least three runs, with different coverages and gaps > 0, which must outlive the law.
  explicit CoverageLaw(std::span<const CoverageRun> runs);

  // Beyond the largest coverage of the runs, the gap that is expected there: no run shows that it
  // falls further. nullopt below the smallest: none shows how it grows.
  std::optional<ExpectedGap> gap(double coverage) const;

  double least() const { return least_; }  // coverage
  double most() const { return most_; }
  const LineFit& line() const { return line_; }
  // "10 runs of 386 k parameters, in bench/results: 2026-11-21-distro-loss.md"
  std::string runs() const;

 private:
  std::span<const CoverageRun> runs_;
  LineFit line_;
  double least_ = 0;
  double most_ = 0;
};

// Of coverage_runs(), all with update = sign.
const CoverageLaw& coverage_law();

// Of runs with update = muon there are too few, and they are too unlike each other, for a law of
// their own; but trained from scratch none ended further behind than its pair with sign. So the
// law's gap is their upper bound, from this coverage on.
inline constexpr double kLeastMuonCoverage = 3.6;
inline constexpr std::string_view kMuonBound =
    "trained from scratch, update = muon was nowhere further behind than sign: "
    "2026-11-23-distro-updates.md";

}  // namespace thinwire::plan
