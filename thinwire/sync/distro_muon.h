// DisTrO's update = "muon": what remains of AdamW's lead at few coefficients lies in the matrices
// of the blocks, and a momentum of many rounds' aggregates, orthogonalised, closes a part of it
// (bench/results/2026-11-23-distro-updates.md).
#pragma once

#include <memory>

#include "thinwire/method/distro.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::sync {

// An optimizer whose gradient is the aggregate x of a round (the inverse transform of the payloads'
// mean, which includes the learning rate). With mu = muon_momentum, s = muon_scale, for a matrix of
// the blocks of rows x columns:
//   m = mu m + x
//   p = p (1 - lr wd) - lr s sqrt(max(rows, columns)) NewtonSchulz(m)
// so that the step's root mean square is about s lr, and for every other tensor
//   p = p (1 - lr wd) - lr sign(x)
// Weights decay where TensorSpec::decays(). m is equal on every replica.
std::unique_ptr<optim::Optimizer> make_distro_muon(const method::DistroOptions& options,
                                                   const method::OptimizerOptions& optim,
                                                   const tensor::Layout& layout);

}  // namespace thinwire::sync
