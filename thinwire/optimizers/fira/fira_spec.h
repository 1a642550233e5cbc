// Facts of Fira (Chen et al. 2024, arXiv 2410.01623): GaLore that also steps along the part of the
// gradient outside its subspace.
#pragma once

#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// The table [fira].
struct FiraOptions final : OptimizerSectionOf<FiraOptions> {
  LowRankFields low_rank;
  double scale = 1;  // alpha
  Moments moments = Moments::kKeep;
  double growth = 1.01;  // gamma
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kFira;

}  // namespace thinwire::method
