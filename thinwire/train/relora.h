// ReLoRA's merges (method/adapters/relora.h) in a worker: the frozen tensors, which change with
// each merge, the factors and the optimizer's state.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/named_span.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/initial_parameters.h"

namespace thinwire::train {

// Sets this share of the values, the smallest in magnitude, to zero: those whose magnitude is at
// most that of the one with index floor(share * (count - 1)) in ascending order (the quantile of
// the authors' code). 0: none.
void reset_smallest(std::span<float> values, double share);

// Belongs to one worker. All replicas that merge in the same step with the same factors get the
// same bits.
class Relora {
 public:
  // Merges into `base`, which nobody else uses. The recipe and params must outlive it.
  Relora(const config::Recipe& recipe, std::shared_ptr<FrozenWeights> base, tensor::Arena& params);

  const tensor::Arena& base() const { return base_->values; }
  // The frozen tensors, which all replicas agree on. The span stays valid.
  std::vector<StateTensor> state();

  // Merges if the recipe says so after `completed` steps: adds the factors to their matrices, draws
  // new ones, and resets what `optimizer` (the optimizer's state) holds for the old ones. Returns
  // whether it did.
  bool after_step(int64_t completed, std::span<const StateTensor> optimizer, ThreadPool& threads);

 private:
  const config::Recipe& recipe_;
  const std::shared_ptr<FrozenWeights> base_;
  tensor::Arena& params_;
};

}  // namespace thinwire::train
