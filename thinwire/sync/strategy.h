// A synchronisation strategy: what a worker does with its gradient so that the replicas stay in
// agreement. One file per strategy, one line in registry.cpp.
//
// Once, before the first step:
//   share_params                  params are the initial weights or a checkpoint's
//   restored(resumption)          state is a checkpoint's, or new
// A worker's step:
//   before_step(round)            e.g. a look-ahead
//   ... forward and backward, gradients_ready(group) as each group's gradients are complete ...
//   after_step(round)             exchange, commit, update of the parameters
// If gradients are streamed (method::GradientStore), as with train.update = layer, there are none
// after the backward pass: during it the strategy gets each one by take_gradient, and updates the
// parameters then. Only strategies of methods that allow it (method::Method::streams,
// local_updates) are asked to. The strategy is used by one thread; it may use the worker's thread
// pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/fields.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// What a strategy works on. Everything it refers to must outlive the strategy, including the recipe
// of the spec.
struct WorkerParts {
  tensor::Arena& params;  // what the model computes with
  // Mean over this worker's tokens in the round; scratch afterwards. Its layout follows from
  // SyncSpec::gradients: that of the params; empty if they are streamed; or the same tensors with
  // the shapes in which the optimizer takes their gradients.
  tensor::Arena& gradients;
  ThreadPool& threads;
  PermitHold& permits;  // paused while waiting for others
  transport::Communicator& communicator;
  method::SyncSpec spec;
  // Where other processes take part in the steps of an optimizer that has the spec's options; for
  // gradients that are whole.
  optim::ShareOptimizer share_optimizer = {};
};

using thinwire::Agreement;

// A payload of this worker that is in flight, not yet applied by anyone: local state of varying
// size.
struct StatePayload {
  std::string name;
  Bytes* bytes;  // empty: nothing is in flight
};

// The round of a training step, a pure function of the recipe.
using RoundAt = std::function<Round(uint64_t step)>;

// Where a run begins or resumes.
struct Resumption {
  uint64_t next_step = 0;
  RoundAt round_at = {};
  // If the run had ended and was then given more steps: the step after which it ended, at most
  // next_step. Its last round was closed there, however short, and nothing was left in flight. 0:
  // it never ended.
  uint64_t ended_at = 0;
  // The worker begins with a snapshot of the run: it has nothing in flight itself, and follows what
  // the others have in flight, even in rounds that list it as active.
  bool from_snapshot = false;
};

struct StepReport {
  double gradient_norm =
      0;  // before clipping: of the mean gradient, or of this worker's if there is no mean
  double exchange_seconds = 0;  // waiting for others
  // The part of this waiting, and of updating weights, that held up the backward pass.
  double backward_exchange_seconds = 0;
  double backward_update_seconds = 0;
  // A secure sum was lost, and with it the progress of the round (private_sum.h).
  bool lost_sum = false;
  bool synchronised = true;  // the shared weights may have changed; replicas compare them
};

// Throws Error naming the step and the worker if a gradient norm is NaN or infinite. Strategies
// call it before the gradient reaches any state.
void require_finite(double gradient_norm, const Round& round, int member);

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Called when params and shared() hold the shared weights, and state() and in_flight() have been
  // filled from a checkpoint (in a new run they are as constructed): derives everything else and
  // sends again what was in flight. State may be the params themselves.
  virtual void restored(const Resumption&) {}
  // Returns whether it changed the params. A worker that is inactive in the round (base/round.h)
  // computes no gradients, but still calls before_step and after_step.
  virtual bool before_step(const Round&) { return false; }
  // With optim.gradients = projected. The first: how a tensor's gradient is taken in this round.
  // The second: where the backward pass forms it whole nevertheless, computes or renews the bases
  // and writes its projection; throws Error if the gradient is not finite.
  virtual tensor::GradientForm gradient_form(const Round&, size_t /*tensor*/) { return {}; }
  virtual void project_gradient(const Round&, size_t /*tensor*/, std::span<const float> /*whole*/,
                                std::span<float> /*projected*/) {}
  // A tensor's gradient is complete, and its params are no longer read in this step. The values
  // have the form that gradient_form() gives and are valid until the call returns. Embedding and
  // head may come in slabs of rows (model.vocab_slabs), one call after the other in their order.
  virtual void take_gradient(const Round&, size_t /*tensor*/, std::span<const float> /*gradient*/) {
  }
  // The gradients of a group (base/gradient_groups.h) are complete, or have been taken. Complete
  // ones belong to the strategy from then on.
  virtual void gradients_ready(const Round&, int /*group*/) {}
  virtual Result<StepReport> after_step(const Round& round) = 0;
  // All state except the parameters, for checkpoints. The spans stay valid.
  virtual std::vector<StateTensor> state() = 0;
  // Brings there what other processes have of it. Valid until the next step.
  virtual void collect_state() {}
  // Resets the state to what it is in a new run: zeros, unless a strategy starts differently.
  virtual void reset();
  // Payloads in flight, which are also saved in checkpoints; the pointers stay valid.
  virtual std::vector<StatePayload> in_flight() { return {}; }
  // If workers train their own weights: the weights that all replicas agree on, which are
  // evaluated, compared, saved and exported. Otherwise null: these are then the params.
  virtual tensor::Arena* shared() { return nullptr; }
  // Whether the params are evaluated in addition to the shared weights, because they contain local
  // progress that the other workers do not have yet.
  virtual bool evaluates_own() const { return false; }
};

// Copies the params, which hold the initial weights or a checkpoint's, to the shared weights if the
// strategy keeps these separately.
void share_params(const tensor::Arena& params, Strategy& strategy);

// The strategy of the run's method.
std::unique_ptr<Strategy> make_strategy(const WorkerParts& worker);
// The strategy of another algorithm for the same worker.
std::unique_ptr<Strategy> make_strategy(const WorkerParts& worker,
                                        const method::AlgorithmSpec& spec);

}  // namespace thinwire::sync
