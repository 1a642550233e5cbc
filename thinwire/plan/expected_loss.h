// The loss that a run is expected to end at, and what that rests on: a law fitted to the user's own
// runs of the method, else a scaling law of the papers, with what runs or papers measured on top.
// A loss that no run or paper supports is unknown.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/tensor_view.h"
#include "thinwire/methods/distro/coverage_plan.h"
#include "thinwire/plan/candidates.h"
#include "thinwire/plan/laws.h"

namespace thinwire::plan {

struct ExpectedLoss {
  std::optional<double> nats = {};  // per token; nullopt: unknown
  std::string basis;                // what it rests on, or why it is unknown; to be shown
  // With DisTrO, how often a worker can send each coefficient (coverage.h), with other methods 0;
  // and, where the loss rests on it, the gap to all-reduce that is part of it.
  double coverage = 0;
  std::optional<ExpectedGap> gap = {};
  const CoverageLaw* law = nullptr;  // of its update, whether it has this coverage or not
};

// The model, as far as its loss depends on it.
struct LossModel {
  std::span<const TensorSpec> tensors;
  double parameters = 0;
  double non_embedding = 0;
  double tokens = 0;  // of the whole run
};

// What the loss of a method is asked for.
struct LossTerms {
  const Candidate& candidate;
  int64_t sync_every;  // training steps in a round
  const LossModel& model;
  std::span<const MethodLaw> own;
};

// The loss that is expected of an algorithm's methods.
struct AlgorithmLoss {
  std::string_view algorithm;                    // method::Method::algorithm
  ExpectedLoss (*loss)(const LossTerms& terms);  // but for what late updates cost
  // Adds that to a loss that is known, or makes it unknown; null: no updates of it are late.
  void (*add_late)(const LossTerms& terms, ExpectedLoss& loss) = nullptr;
};

// The loss of each folder of thinwire/methods.
#define THINWIRE_METHOD(Name) extern const AlgorithmLoss k##Name##Loss;
#include "thinwire/methods/methods.inc"
#undef THINWIRE_METHOD

// What several of them rest on.
ExpectedLoss unknown_loss(std::string why);
ExpectedLoss all_reduce_loss(const LossTerms& terms);
ExpectedLoss local_sgd_loss(const LossTerms& terms);

// For a candidate that synchronises every `sync_every` steps.
ExpectedLoss expected_loss(const Candidate& candidate, int64_t sync_every, const LossModel& model,
                           std::span<const MethodLaw> own);

}  // namespace thinwire::plan
