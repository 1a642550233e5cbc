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
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/plan/laws.h"

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
  double lead = 0;          // GapLine

  double coverage() const { return static_cast<double>(steps * k) / static_cast<double>(slots); }
  std::string name() const;  // "172 k, 5000 steps, k 3"; runs that differ in the seed share it
};
// Those with this update; none for updates that were never far enough to be worth a law.
std::span<const CoverageRun> coverage_runs(method::DistroUpdate update);

// Rounds times the share of the matrices' coefficients that a round's payload holds at most. The
// tensors are those of the gradients as the optimizer takes them (method::gradient_tensors).
double coverage(const method::DistroOptions& options, std::span<const TensorSpec> tensors,
                int64_t rounds);

// In nats per token, with the range that holds 95 % of such runs.
struct ExpectedGap {
  double nats = 0;
  Interval range;
};

struct CoveredGap {
  double coverage = 0;
  double gap = 0;
  double lead = 0;
};

// gap = exp(intercept) coverage^slope - lead. The lead is how far DisTrO's update ends ahead of
// AdamW where everything is sent: 0 for signs; for update = muon, whose runs can end ahead, what
// Muon with all-reduce leads by in the same model.
struct GapLine {
  LineFit line;  // log(gap + lead) over log(coverage)
  // The leads of the runs that were fitted.
  double mean_lead = 0;
  Interval leads;

  // The gap of a model whose lead is known, and of any: with the mean lead, and a range widened by
  // theirs.
  ExpectedGap at(double coverage, double lead) const;
  ExpectedGap at(double coverage) const;
};
// By least squares. At least two different coverages; every gap is above -lead.
GapLine fit_gaps(std::span<const CoveredGap> gaps);

// The line through the gaps of runs, within their coverages.
class CoverageLaw {
 public:
  // At least three runs, with different coverages and gaps above -lead, which must outlive the law.
  explicit CoverageLaw(std::span<const CoverageRun> runs);

  // Beyond the largest coverage of the runs, the gap that is expected there, although it may fall
  // further. nullopt below the smallest: none shows how it grows.
  std::optional<ExpectedGap> gap(double coverage) const;

  double least() const { return least_; }  // coverage
  double most() const { return most_; }
  const GapLine& line() const { return line_; }
  // "10 runs of 386 k parameters, in bench/results: 2026-11-21-distro-loss.md"
  std::string runs() const;

 private:
  std::span<const CoverageRun> runs_;
  GapLine line_;
  double least_ = 0;
  double most_ = 0;
};

// The law that was fitted to coverage_runs(update); nullptr where there are none.
const CoverageLaw* coverage_law(method::DistroUpdate update);

// Finished runs with DisTrO, each compared with the best one with all-reduce on the same tokens:
// the gaps to which a law of coverage (coverage.h) is fitted.
struct LossOfRun {
  std::string name;   // to be shown
  std::string setup;  // the same for runs of the same model, text, batch and seed
  int64_t steps = 0;
  double coverage = 0;  // 0: by all-reduce
  double loss = 0;      // nats per token
};

struct ComparedRun {
  LossOfRun run;
  double gap = 0;  // nats by which its loss is above that of the best run by all-reduce
  // The steps after which all-reduce has this loss, interpolated in the logarithm of the steps
  // between the best runs of each length; nullopt outside their losses.
  std::optional<double> all_reduce_steps;
  bool best = false;  // has the lowest loss of the runs with its setup, steps and coverage
};

// The runs with DisTrO, in their order. Throws UsageError naming the run if none with all-reduce
// has its setup and steps.
std::vector<ComparedRun> compare_with_all_reduce(std::span<const LossOfRun> runs);

}  // namespace thinwire::plan
