// Clipping of gradients: the factors with which an optimizer's step takes them. Norms are taken in
// an order fixed by position alone, tensors by their place in the layout, so that they are the same
// however tensors come.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/named_span.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/update_choices.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

// With n the norm of this step's gradient, n' that of the step before and n_t a tensor's:
//   step      min(1, clip / (n + 1e-6)) for all tensors
//   previous  min(1, clip / (n' + 1e-6)) for all tensors; 1 in the first step
//   tensor    min(1, clip / (n_t + 1e-6))
// clip 0: always 1.
class Clipping {
 public:
  Clipping(config::ClipBy by, double clip, size_t tensors);

  // A step's gradient, whole.
  void measure(const tensor::Arena& gradients, ThreadPool& threads);
  // Or tensor by tensor; returns the tensor's norm.
  double measure(size_t tensor, std::span<const float> gradient, ThreadPool& threads);

  // Of a tensor that was measured, or the whole gradient was.
  float scale(size_t tensor) const;
  // Of the step's gradient before clipping, once all of it was measured.
  double norm() const;
  void end_step();

  // What `previous` keeps from step to step; equal on replicas that are fed the same gradients.
  std::vector<StateTensor> state();

 private:
  const config::ClipBy by_;
  const double clip_;
  std::vector<double> norms_;    // by tensor
  std::optional<double> whole_;  // where the gradient was measured whole
  float previous_ = 0;
};

}  // namespace thinwire::sync
