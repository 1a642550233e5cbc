// The receiving half of DisTrO: from a round's committed payloads to updated parameters
// (thinwire/methods/distro/distro.md). Everything here must have the same bits on every replica,
// whatever the number of threads and the instruction set.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/aggregate.h"
#include "thinwire/base/round.h"
#include "thinwire/codec/payload.h"
#include "thinwire/methods/distro/distro_spec.h"
#include "thinwire/methods/distro/tile_work.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

class DistroApplier {
 public:
  // Options, tiles and the parameters' layout must outlive the applier. The tiles are those of the
  // gradients as the optimizer takes them.
  DistroApplier(const method::DistroOptions& options, const AggregateOptions& aggregate,
                const method::OptimizerOptions& optim, const codec::DistroTiles& tiles,
                const tensor::Layout& layout, ThreadPool& threads);

  // As the optimizer says (optim/optimizer.h); without one, whole and never.
  tensor::GradientForm gradient_form(size_t tensor, uint64_t number) {
    return optimizer_ ? optimizer_->gradient_form(tensor, number) : tensor::GradientForm{};
  }
  bool redrawn(size_t tensor, uint64_t number) const {
    return optimizer_ && optimizer_->redrawn(tensor, number);
  }

  // Decodes the payloads, ordered by member, and updates `params`. `gradients` is overwritten if an
  // optimizer makes the update. If a payload is refused, nothing changes; with a rule other than
  // the mean that holds only if all are refused, since otherwise the others are applied without it.
  // If the parameters are on a GPU, the work after decoding is done there, with the same bits.
  Result<void> apply(std::span<const transport::Delivery> deliveries, const Round& round,
                     tensor::Arena& params, tensor::Arena& gradients);

  // The same with a message that is decoded: the mean of a round's payloads.
  void apply(const codec::SparseMessage& mean, const Round& round, tensor::Arena& params,
             tensor::Arena& gradients) {
    update({&mean, 1}, nullptr, round, params, gradients);
  }

  // State of the optimizer; equal on every replica.
  std::vector<optim::OptimizerState> state();
  // Resets it to what it is in a new run.
  void reset() {
    if (optimizer_) optimizer_->reset();
  }

 private:
  void update(std::span<const codec::SparseMessage> counted, const codec::Aggregation* aggregate,
              const Round& round, tensor::Arena& params, tensor::Arena& gradients);
  // How many payloads count, which come first in received_ then.
  Result<size_t> decode(std::span<const transport::Delivery> deliveries, const Round& round);
  void decode_segments(std::span<const transport::Delivery> deliveries, const Round& round,
                       std::span<std::optional<Failure>> failures);
  std::optional<codec::Aggregation> aggregation(std::span<const codec::SparseMessage> counted);
  // The factor for a tensor's parameters (weight decay).
  float shrink(size_t tensor, float lr) const;

  const method::DistroOptions& options_;
  const AggregateOptions aggregate_;
  double weight_decay_;
  const codec::DistroTiles& tiles_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  tensor::TileUpdate update_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<codec::SparseMessage> received_;  // by payload
  std::unique_ptr<codec::TileWork> work_;
};

// DisTrO's update = "muon": what remains of AdamW's lead at few coefficients lies in the matrices
// of the blocks, and a momentum of many rounds' aggregates, orthogonalised, closes a part of it
// (bench/results/2026-11-23-distro-updates.md).

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
