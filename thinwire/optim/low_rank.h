// What low-rank optimizers have in common: which matrices they take, memory for a step, and when
// bases are renewed. The rest is left to AdamW.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/method/low_rank.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optim/subspace.h"

namespace thinwire::optim {

class LowRankOptimizer : public Optimizer {
 public:
  LowRankOptimizer(const method::OptimizerOptions& options, const tensor::Layout& layout,
                   const method::LowRankFields& fields, method::Sides sides = method::Sides::kOne);

  void update(const TensorUpdate& tensor, const OptimizerStep& step, ThreadPool& threads) final;

 protected:
  // Updates a matrix whose rank is not 0.
  virtual void update_matrix(const TensorUpdate& tensor, const method::LowRankShape& shape,
                             const OptimizerStep& step, ThreadPool& threads) = 0;

  // Renews the bases if the step is one in which they are, or if they are not present. Returns
  // those of before, or none where there were none or they are as they were; valid until the next
  // call.
  Bases refresh(const TensorUpdate& tensor, const method::LowRankShape& shape, const Bases& bases,
                const OptimizerStep& step, ThreadPool& threads);
  // Whether the step is one in which this tensor's subspace is renewed.
  bool due(size_t tensor, const OptimizerStep& step) const {
    return plan_.due(tensor, step.number);
  }
  // Such steps so far.
  uint64_t turns(size_t tensor, const OptimizerStep& step) const {
    return plan_.turns(tensor, step.number);
  }
  // Differs between tensors and runs.
  uint64_t seed(size_t tensor) const;

  // p = p (1 - lr wd) - lr * scale * full
  void move(const TensorUpdate& tensor, const OptimizerStep& step, double scale,
            ThreadPool& threads);

  // Memory of a step: a core, and a matrix of the tensor's own shape.
  std::span<float> core(const method::LowRankShape& shape);
  std::span<float> full(const method::LowRankShape& shape);
  Subspace& subspace() { return subspace_; }

 private:
  std::vector<method::LowRankShape> shapes_;  // of all tensors
  method::RefreshPlan plan_;
  Subspace subspace_;
  std::vector<float> core_, full_, left_before_, right_before_;
};

}  // namespace thinwire::optim
