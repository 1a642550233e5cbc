// Facts of SparseLoCo (Sarfi et al. 2025, arXiv 2508.15706): DiLoCo in which workers send the
// largest few per cent of their pseudo-gradients' values, in two bits each, and keep the rest for
// later (error feedback). The code is in sparseloco.cpp, the equations in
// thinwire/methods/sparseloco/sparseloco.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/tensor_view.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/tiles.h"
#include "thinwire/methods/diloco/diloco_spec.h"

namespace thinwire::method {

// The table [sparseloco].
struct SparseLocoOptions final : config::SectionOf<SparseLocoOptions> {
  int64_t sync_every = 30;  // H
  int64_t chunk = 4096;
  int64_t k = 64;
  double decay = 0.95;
  SlotMean aggregate = SlotMean::kOfSenders;
  SlotSums sums;
  OuterOptimizer outer = OuterOptimizer::kSgd;  // not kAverage
  double outer_lr = 1;
  double outer_momentum = 0.9;  // mu
  void describe(config::Fields& fields) override;

  // Options of the outer step.
  DilocoOptions outer_options() const;
  // Those of a payload with the mean of all (sums.formed()).
  SparseLocoOptions of_sum() const;
};

// The chunks of all tensors, as tiles with one row. Tensor t's full chunks, if any, and its shorter
// last chunk, if any, are plan.tensors[parts[t] .. parts[t + 1]).
struct ChunkPlan {
  TilePlan plan;
  std::vector<size_t> parts;
};
ChunkPlan plan_chunks(std::span<const TensorSpec> tensors, const SparseLocoOptions& options);

struct Method;
extern const Method kSparseLoco;

}  // namespace thinwire::method
