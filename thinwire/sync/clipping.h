// Gradient clipping: the factors by which an optimizer's step multiplies gradients. Norms are
// summed in an order fixed by position alone, with tensors in the order of the layout, so they do
// not depend on the order in which tensors arrive. They are norms of gradients as the optimizer
// takes them: with optim.gradients = projected, the norm of a projected matrix's gradient is that
// of the projection.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/named_span.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/update_choices.h"
#include "thinwire/optim/arena_norm.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

// With n the norm of this step's gradient, n' that of the previous step and n_t that of a tensor:
//   step      min(1, clip / (n + 1e-6)) for all tensors
//   previous  min(1, clip / (n' + 1e-6)) for all tensors; 1 in the first step
//   tensor    min(1, clip / (n_t + 1e-6))
// If clip is 0, the factor is always 1.
class Clipping {
 public:
  Clipping(config::ClipBy by, double clip, size_t tensors);

  // Measures the whole gradient of a step.
  void measure(const tensor::Arena& gradients, ThreadPool& threads);
  // Measures the gradient of one tensor and returns its norm. One that comes in parts, cut at
  // multiples of kNormBlock, is measured part by part in their order: `continues` says that
  // it is not the first. The norm is that of all parts so far.
  double measure(size_t tensor, std::span<const float> gradient, ThreadPool& threads,
                 bool continues = false);

  // The factor for a tensor. The tensor or the whole gradient must have been measured.
  float scale(size_t tensor) const;
  // The norm of the step's gradient before clipping, once all of it has been measured.
  double norm() const;
  void end_step();

  // What `previous` keeps from step to step. Equal on replicas that are fed the same gradients.
  std::vector<StateTensor> state();
  void reset() { previous_ = 0; }

 private:
  const config::ClipBy by_;
  const double clip_;
  optim::ArenaNorm arena_norm_;
  std::vector<double> norms_;    // by tensor
  double squares_ = 0;           // of the tensor measured last
  std::optional<double> whole_;  // set if the gradient was measured whole
  float previous_ = 0;
};

}  // namespace thinwire::sync
