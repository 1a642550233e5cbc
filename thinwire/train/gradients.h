// A step's loss and gradients, over more rows than one forward pass can take, and where they go.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/base/round.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/model/model.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"
#include "thinwire/tensor/storage/projected_gradients.h"

namespace thinwire::train {

class PairLoss;
class Site;

// A worker's rows of a step, at least one.
struct StepRows {
  std::span<const int32_t> tokens;  // rows of sequence + 1
  int64_t sequence = 0;
  int64_t max_rows = 0;        // that go through the model in a pass
  model::RowMarks marks = {};  // weights: 0 or 1
  // Predictions that count in a row of the step, or pairs of answers, the mean over the rows of all
  // workers; 0: all.
  double counted_a_row = 0;
  PairLoss* loss = nullptr;  // null: the sum over the predictions that count
  int64_t worker_rows = 0;   // all rows that the worker has in the step; 0: these are all of them
};

// Rows [first, first + count) of a step, all else unchanged.
StepRows part_of(const StepRows& step, int64_t first, int64_t count);

// StepRows::counted_a_row of the rows of these members of a round.
double counted_a_row(const data::Rows& rows, std::span<const RoundMember> members);

// Gives the sink the gradients of the sum of the losses that count, divided by the number of rows
// and counted_a_row, and returns that sum in nats. So a mean of all workers' gradients, weighted by
// their rows, is the gradient of the mean loss over all predictions of the step that count, however
// the rows are divided among workers and passes. With a loss of documents the same holds for pairs.
double accumulate_gradients(model::Model& model, const StepRows& step, tensor::GradientSink& sink);

// Gives the fp32 memory of an arena (tensor::Arena), which outlives the replica; empty: it is
// allocated.
using ArenaMemory = std::function<std::span<float>(const tensor::Layout& layout)>;

// What happens to a worker's gradients: they are kept until the end of the step, whole or
// projected, or handed to the strategy one by one. Used by one thread.
class StepGradients {
 public:
  using EndGroup = std::function<void(int group)>;

  // The layout of the parameters outlives it, and so do the parameters and the ranks that compute
  // with this worker, if there are any. memory: of whole(), for whoever calls it.
  StepGradients(const config::Recipe& recipe, const tensor::Arena& params, Site* site = nullptr,
                ArenaMemory memory = {});

  // What a strategy is made with (sync::WorkerParts::gradients).
  tensor::Arena& arena() { return arena_; }

  // Computes the round's gradients and notifies the strategy of them, and before it `completed`, if
  // set, of each group that is complete. Returns the sum of losses in nats.
  double compute(const StepRows& rows, model::Model& model, sync::Strategy& strategy,
                 const Round& round, const EndGroup& completed = {});

  // For whoever forms gradients without a model: memory for all of them, in the layout of the
  // parameters, in one place for the whole run; zero, or as the strategy left them.
  tensor::Arena& whole();
  // Notifies the strategy of the round's gradients in whole(), and `completed` as above.
  void hand_over(sync::Strategy& strategy, const Round& round, const EndGroup& completed = {});

  // Bytes held for gradients.
  size_t bytes() const;

 private:
  // Where gradients are handed over one by one, but the rows need several passes, because a member
  // has more than its share while others are away: forms all of them first.
  double compute_whole(const StepRows& rows, model::Model& model) const;
  // The same with the ranks of a site.
  double stream_with_site(const StepRows& rows, model::Model& model);
  void take_group(const tensor::Arena& gradients, const GradientGroup& group) const;
  void end_group(int group) const;
  tensor::StreamedGradients::Handlers streaming() const;
  tensor::ProjectedGradients::Handlers projecting() const;
  tensor::StreamSize stream_size(const model::Model& model) const;

  const method::GradientStore store_;
  const bool projected_;
  const int64_t slabs_;  // model.vocab_slabs
  const tensor::Arena& params_;
  Site* const site_;  // may be null
  const tensor::Layout& layout_;
  const tensor::Layout kept_;
  const ArenaMemory memory_;
  tensor::Arena arena_;
  std::optional<tensor::Arena> formed_;                // whole(), where arena_ does not hold it
  std::optional<tensor::StreamedGradients> streamed_;  // from the first step on
  std::optional<tensor::ProjectedGradients> projecting_;
  sync::Strategy* strategy_ = nullptr;  // of the current call
  const Round* round_ = nullptr;
  const EndGroup* completed_ = nullptr;
};

}  // namespace thinwire::train
