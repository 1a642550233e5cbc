// Facts of GaLore (Zhao et al. 2024, arXiv 2403.03507): Adam on a matrix's gradient projected into
// a low-dimensional subspace.
#pragma once

#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// The table [galore].
struct GaloreOptions final : OptimizerSectionOf<GaloreOptions> {
  LowRankFields low_rank;
  double scale = 0.25;  // alpha
  Moments moments = Moments::kKeep;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kGalore;

// Whether the recipe's optimizer is GaLore with seeded bases, which all workers share without
// exchanging anything.
bool draws_bases(const config::Recipe& recipe);

}  // namespace thinwire::method
