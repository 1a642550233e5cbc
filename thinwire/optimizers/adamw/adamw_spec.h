// Facts of AdamW: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101,
// algorithm 2).
#pragma once

#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// The table [adamw].
struct AdamwOptions final : OptimizerSectionOf<AdamwOptions> {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kAdamw;

}  // namespace thinwire::method
