// What low-rank optimizers have in common: which matrices they update, the memory for a step, and
// when bases are renewed. All other tensors are updated by AdamW.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/method/optimizers/low_rank.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optim/subspace.h"

namespace thinwire::optim {

class LowRankOptimizer : public Optimizer {
 public:
  // moments: what happens to pieces 0 and 1 of a matrix's state when its bases are renewed.
  LowRankOptimizer(const method::OptimizerOptions& options, const tensor::Layout& layout,
                   const method::LowRankFields& fields,
                   method::Moments moments = method::Moments::kKeep,
                   method::Sides sides = method::Sides::kOne);

  void update(const TensorUpdate& tensor, const OptimizerStep& step, ThreadPool& threads) final;
  tensor::GradientForm gradient_form(size_t tensor, uint64_t step) final;
  void project(size_t tensor, uint64_t step, std::span<const float> whole,
               std::span<float> projected, ThreadPool& threads, const Average& average) final;
  bool redrawn(size_t tensor, uint64_t step) const final;
  void reset() final;

 protected:
  // Updates a matrix whose subspace has a rank other than 0.
  virtual void update_matrix(const TensorUpdate& tensor, const method::LowRankShape& shape,
                             const OptimizerStep& step, ThreadPool& threads) = 0;

  // The pieces of a matrix's state that hold its bases; by default piece 2, of its one projected
  // side.
  struct BasisPieces {
    std::optional<StateValues> left, right;
  };
  virtual BasisPieces basis_pieces(size_t tensor, const method::LowRankShape& shape);
  // The bases of a matrix: the state itself, or where that is not fp32 a copy, valid until the next
  // call for another tensor.
  Bases bases(size_t tensor, const method::LowRankShape& shape);
  // To be called after the bases that bases() returned were changed: stores them in the state,
  // rounded, and gives them the stored values.
  void keep_bases(size_t tensor, const method::LowRankShape& shape, uint64_t step,
                  ThreadPool& threads);
  // Converts the rest of a matrix's state from the old bases to the new ones; by default both
  // moments, if they rotate.
  virtual void change_bases(size_t tensor, const method::LowRankShape& shape, const Bases& before,
                            const Bases& now, uint64_t step, ThreadPool& threads);
  // The first half of a step in the subspace: the gradient's projection, scaled, in core(shape).
  // Returns the bases. If they are due to be renewed, that is done at the end of update().
  Bases take_core(const TensorUpdate& tensor, const method::LowRankShape& shape,
                  const OptimizerStep& step, ThreadPool& threads);
  // Whether this tensor's subspace is renewed in this step.
  bool due(size_t tensor, uint64_t step) const { return plan_.due(tensor, step); }
  // The number of steps so far in which it was renewed.
  uint64_t renewals(size_t tensor, const OptimizerStep& step) const {
    return plan_.renewals(tensor, step.number);
  }
  // A seed that differs between tensors and between runs.
  uint64_t seed(size_t tensor) const;

  // p = p (1 - lr wd) - lr * scale * direction
  void move(const TensorUpdate& tensor, const OptimizerStep& step, double scale,
            const Elements& elements, const ValuesAt& direction, ThreadPool& threads);
  // The same along P core Q^T of core(shape).
  void move_in_subspace(const TensorUpdate& tensor, const method::LowRankShape& shape,
                        const Bases& bases, const OptimizerStep& step, double scale,
                        ThreadPool& threads);

  // Memory for the core of a step.
  std::span<float> core(const method::LowRankShape& shape);
  Subspace& subspace() { return subspace_; }

 private:
  // The bases for the steps after this one.
  struct Renewed {
    std::vector<float> left, right;
  };
  // Gives the tensor the seeded bases of the step, unless it has them: state is zero at first, and
  // after a member was inactive.
  void draw_if_absent(size_t tensor, uint64_t step);
  // Those after `renewals` renewals.
  void draw(size_t tensor, uint64_t renewals);
  // Gives the tensor its renewed bases, if there are any, and converts its state to them.
  void take_renewed(size_t tensor, uint64_t step, ThreadPool& threads);
  void rotate_moment(const method::LowRankShape& shape, const Bases& before, const Bases& now,
                     bool squared, const StateValues& moment, uint64_t step, ThreadPool& threads);

  std::vector<method::LowRankShape> shapes_;  // by tensor
  method::Moments moments_;
  method::RefreshPlan plan_;
  Subspace subspace_;
  std::map<size_t, Renewed> renewed_;  // by tensor, from project() to the end of update()
  std::vector<float> core_, band_;
  std::vector<float> left_, right_;  // copies of bases that are not kept in fp32
};

}  // namespace thinwire::optim
