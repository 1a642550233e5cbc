// A step's loss and gradients, of more rows than one forward pass takes, and where they go.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/round.h"
#include "thinwire/config/recipe.h"
#include "thinwire/method/gradient_store.h"
#include "thinwire/model/model.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"
#include "thinwire/tensor/storage/projected_gradients.h"

namespace thinwire::train {

// Gives the sink the gradients of the mean loss over all tokens and returns the sum of the losses
// in nats. `tokens` holds at least one row of sequence + 1; at most max_rows go through the model
// in a pass, in order.
double accumulate_gradients(model::Model& model, std::span<const int32_t> tokens, int64_t sequence,
                            int64_t max_rows, tensor::GradientSink& sink);

// The rows of a step, as accumulate_gradients takes them.
struct StepRows {
  std::span<const int32_t> tokens;
  int64_t sequence = 0;
  int64_t max_rows = 0;
};

// What becomes of a worker's gradients: kept for the end of the step, whole or projected, or handed
// to the strategy one by one. Used by one thread.
class StepGradients {
 public:
  // The layout of the parameters outlives it.
  StepGradients(const config::Recipe& recipe, const tensor::Layout& layout);

  // What a strategy is made with (sync::Worker::gradients).
  tensor::Arena& arena() { return arena_; }

  // Computes the round's gradients, of which the strategy hears. Returns the sum of losses in nats.
  double compute(const StepRows& rows, model::Model& model, sync::Strategy& strategy,
                 const Round& round);

  // Bytes held for gradients.
  size_t bytes() const;

 private:
  tensor::StreamedGradients::Handlers streaming() const;
  tensor::ProjectedGradients::Handlers projecting() const;
  tensor::StreamSize stream_size(const model::Model& model) const;

  const method::GradientStore store_;
  const bool projected_;
  const tensor::Layout& layout_;
  const tensor::Layout kept_;
  tensor::Arena arena_;
  std::optional<tensor::StreamedGradients> streamed_;  // from the first step on
  std::optional<tensor::ProjectedGradients> projecting_;
  sync::Strategy* strategy_ = nullptr;  // of the present call
  const Round* round_ = nullptr;
};

}  // namespace thinwire::train
