// Facts of Muon (Jordan et al. 2024; Liu et al. 2025, arXiv 2502.16982).
#pragma once

#include "thinwire/method/optimizers/optimizer.h"

namespace thinwire::method {

// The table [muon].
struct MuonOptions final : OptimizerSectionOf<MuonOptions> {
  double lr = 0;  // peak learning rate of the matrices; 0: optim.lr
  double momentum = 0.95;
  void describe(config::Fields& fields) override;
};

extern const OptimizerSpec kMuon;

inline constexpr int kNewtonSchulzSteps = 5;  // of the iteration that orthogonalises

}  // namespace thinwire::method
