// A synchronisation strategy: what a worker does with its gradient so that the replicas stay in
// agreement. One file a strategy, one line in registry.cpp.
//
// Once, before the first step:
//   share_params                  params are the weights of a start or a checkpoint
//   restored(resumption)          state is what a checkpoint held, or new
// A worker's step:
//   before_step(round)            e.g. a look-ahead
//   ... forward and backward, gradients_ready(layer) as each layer's gradient is complete ...
//   after_step(round)             exchange, commit, update of the parameters
// The strategy is used by one thread; it may use the worker's thread pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/round.h"
#include "thinwire/base/threads.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/arena.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

// What a strategy works on; everything outlives it.
struct Worker {
  const config::Recipe& recipe;
  tensor::Arena& params;  // what the model computes with
  tensor::Arena&
      gradients;  // mean over this worker's own tokens of the round; free for use after it
  ThreadPool& threads;
  SlotHold& slots;  // paused while waiting for others
  transport::Communicator& communicator;
};

// Who must agree on a piece of state. Derivable state is not listed at all.
enum class Agreement : uint8_t {
  kConsensus,  // bit-identical on every replica after a synchronisation, digested, stored once
  kLocal,      // differs between workers, stored for each
};

struct StateTensor {
  std::string name;
  std::span<float> values;
  Agreement agreement = Agreement::kConsensus;
};

// A payload that this worker sent and nobody has applied: local state whose size is not fixed.
struct StateBytes {
  std::string name;
  Bytes* bytes;  // empty: nothing travels
};

// The round of a training step, a pure function of the recipe.
using RoundAt = std::function<Round(uint64_t step)>;

// Where a run begins or goes on.
struct Resumption {
  uint64_t next_step = 0;
  RoundAt round_at = {};
  // The step after which the run had ended before it was given more steps, at most next_step: its
  // last round was closed there, however short, and nothing travelled on. 0: it never had.
  uint64_t ended_at = 0;
};

struct StepReport {
  double gradient_norm =
      0;  // before clipping: of the mean gradient, or of this worker's where there is no mean
  double exchange_seconds = 0;  // waiting for others
  bool synchronised = true;     // the shared weights may have changed; replicas compare them
};

// Throws Error that names the step and the worker when a gradient norm is NaN or infinite.
// Strategies call it before such a gradient reaches anybody's state.
void require_finite(double gradient_norm, const Round& round, int member);

class Strategy {
 public:
  virtual ~Strategy() = default;
  // Called when params and shared() hold the shared weights, and then state() and travelling() what
  // a checkpoint held of them (in a new run they are as constructed): derives the rest and sends
  // what travelled once more. State may be the params themselves.
  virtual void restored(const Resumption&) {}
  // A worker that is away in the round (base/round.h) computes no gradients, but calls both
  // before_step and after_step. Whether it changed the params.
  virtual bool before_step(const Round&) { return false; }
  virtual void gradients_ready(const Round&, int /*layer*/) {}
  virtual Result<StepReport> after_step(const Round& round) = 0;
  // All state besides the parameters, for checkpoints. The spans stay valid.
  virtual std::vector<StateTensor> state() = 0;
  // What checkpoints hold besides; the pointers stay valid.
  virtual std::vector<StateBytes> travelling() { return {}; }
  // The weights that all replicas agree on, which are evaluated, compared, saved and exported,
  // where a worker trains with weights of its own; null: the params are they.
  virtual tensor::Arena* shared() { return nullptr; }
  // Whether the params are evaluated beside the shared weights, because they hold something that a
  // worker knows before all others do.
  virtual bool evaluates_own() const { return false; }
};

// Makes the params, which hold the weights of a start or a checkpoint, the shared weights as well
// where these are apart.
void share_params(const tensor::Arena& params, Strategy& strategy);

struct StrategyEntry {
  std::string_view name;  // the same name as in method/registry.h
  std::unique_ptr<Strategy> (*make)(const Worker& worker);
};

std::span<const StrategyEntry> all_strategies();
// The strategy the recipe names.
std::unique_ptr<Strategy> make_strategy(const Worker& worker);

}  // namespace thinwire::sync
