// What low-rank optimizers have in common: which matrices they update, the memory for a step, and
// when bases are renewed. All other tensors are updated by AdamW.
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
  // Updates a matrix whose subspace has a rank other than 0.
  virtual void update_matrix(const TensorUpdate& tensor, const method::LowRankShape& shape,
                             const OptimizerStep& step, ThreadPool& threads) = 0;

  // Renews the bases if they are due in this step or not present. Returns the previous bases, or
  // none if there were none or nothing was renewed. The result is valid until the next call.
  Bases refresh(const TensorUpdate& tensor, const method::LowRankShape& shape, const Bases& bases,
                const OptimizerStep& step, ThreadPool& threads);
  // Takes both moments from the coordinates of the bases before to those of the bases now.
  void rotate_moments(const method::LowRankShape& shape, const Bases& before, const Bases& now,
                      const StateValues& m, const StateValues& v, const OptimizerStep& step,
                      ThreadPool& threads);
  // The first half of a step of one-sided optimizers whose state begins with m, v and the basis:
  // renews the basis if it is due, rotates the moments into it if `moments` says so, and projects
  // the gradient into core(shape). Returns the bases.
  Bases project_one_side(const TensorUpdate& tensor, const method::LowRankShape& shape,
                         method::Moments moments, const OptimizerStep& step, ThreadPool& threads);
  // Whether this tensor's subspace is renewed in this step.
  bool due(size_t tensor, const OptimizerStep& step) const {
    return plan_.due(tensor, step.number);
  }
  // The number of steps so far in which it was renewed.
  uint64_t turns(size_t tensor, const OptimizerStep& step) const {
    return plan_.turns(tensor, step.number);
  }
  // A seed that differs between tensors and between runs.
  uint64_t seed(size_t tensor) const;

  // p = p (1 - lr wd) - lr * scale * full
  void move(const TensorUpdate& tensor, const OptimizerStep& step, double scale,
            ThreadPool& threads);

  // Memory for a step: a core, and a matrix of the tensor's shape.
  std::span<float> core(const method::LowRankShape& shape);
  std::span<float> full(const method::LowRankShape& shape);
  Subspace& subspace() { return subspace_; }

 private:
  void rotate_moment(const method::LowRankShape& shape, const Bases& before, const Bases& now,
                     bool squared, const StateValues& moment, const OptimizerStep& step,
                     ThreadPool& threads);

  std::vector<method::LowRankShape> shapes_;  // by tensor
  method::RefreshPlan plan_;
  Subspace subspace_;
  std::vector<float> core_, full_, left_before_, right_before_;
};

}  // namespace thinwire::optim
