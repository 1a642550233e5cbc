// A worker's replica of a run: all of a worker but its model. Weights, gradients and threads, the
// strategy that exchanges, the rounds, and the state that checkpoints hold. It is driven from
// outside:
//
//   replica.start();                       once a model has been made for its weights
//
//   Round round = replica.next_round();    its rows, and the learning rate
//
//   replica.begin(round);                  the weights may change, as by a look-ahead
//
//   replica.gradients(...);                those of its rows, computed by a model; or the caller
//                                          sets them and calls replica.gradients_ready(round)
//
//   replica.apply(round);                  exchanges, commits, updates the weights
//
// Used by one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/checkpoint_collector.h"
#include "thinwire/config/recipe.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/relora.h"
#include "thinwire/train/round_source.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::train {

// The run was ended from elsewhere; the reason is another worker's exception.
class Aborted : public Error {
 public:
  using Error::Error;
};

// From where a run's replicas go on.
struct RunStart {
  InitialParameters& initial;  // at the start, or from the checkpoint
  int64_t first_step = 0;
  int64_t ended_at = 0;  // steps after which the run had ended, before it was extended; 0: never
  // The checkpoint to resume from; null: a new run.
  const checkpoint::CheckpointReader* resume = nullptr;
  std::optional<int> part = {};  // of the checkpoint, which a worker takes; none: that of its rank
  // Where a run of many hosts is joined after first_step steps: a checkpoint without local state,
  // from which `initial` is; null: none.
  const checkpoint::CheckpointReader* snapshot = nullptr;
  // Null: all tensors are trained, or each worker has frozen ones of its own, from `initial`.
  std::shared_ptr<const FrozenWeights> frozen = {};
  std::set<std::string> evaluated = {};  // evaluations after first_step that are already recorded
  checkpoint::BestLoss best = {};        // of the recorded evaluations of eval.watch
};

// What the replicas of a process share besides.
struct RunMachine {
  CorePermits& cores;
  std::shared_ptr<transport::SimulatedNetwork> simulation = {};  // null: links are not simulated
  Site* site = nullptr;  // ranks that compute this worker's gradients with it
};

// What a replica is made from; all that it refers to must outlive it.
struct ReplicaParts {
  const config::Recipe& recipe;
  uint64_t run_id = 0;
  method::RunKind kind = method::RunKind::kJob;
  MakeRounds make_rounds = recipe_rounds;
  // Called on each replica's thread for the memory of its params and of its gradients.
  ArenaMemory memory = {};
  ArenaMemory gradient_memory = {};
  RunStart start;
  RunMachine machine;
};

// What became of a step.
struct AppliedStep {
  sync::StepReport report;
  bool new_rows = false;      // the rows of later steps have changed
  bool merged = false;        // the frozen weights have changed
  uint64_t digest = 0;        // of the shared weights, where replicas synchronised and compare them
  uint64_t state_digest = 0;  // of the consensus state, if it was digested
};

class Replica {
 public:
  Replica(const ReplicaParts& parts, transport::Communicator& communicator);
  ~Replica();  // leaves the run, once started
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Makes the strategy, and reads the state of what is resumed or joined. Called once, after the
  // model was made, which decides where the weights are.
  void start();

  // The weights with which gradients are computed, and those beside them that are not trained
  // (null: none).
  tensor::Arena& params() { return params_; }
  const tensor::Arena* frozen() const;
  ThreadPool& threads() { return threads_; }
  PermitHold& permits() { return permits_; }
  RoundSource& rounds() { return *rounds_; }
  int id() const { return communicator_.rank(); }
  const ReplicaParts& parts() const { return parts_; }

  int64_t completed() const { return completed_; }  // steps
  Round next_round() const { return rounds_->at(completed_); }
  // The round of the newest of the completed steps.
  Round last_round() const { return rounds_->at(std::max<int64_t>(completed_ - 1, 0)); }
  // Whether it shows progress and saves the shared state.
  bool leads(const Round& round) const { return round.roster.front().id == id(); }

  // Whether frozen weights change in the course of the run (AppliedStep::merged).
  bool merges() const { return relora_ != nullptr; }

  // Returns whether the params have changed.
  bool begin(const Round& round) { return strategy_->before_step(round); }
  // As StepGradients::compute.
  double gradients(const StepRows& rows, model::Model& model, const Round& round,
                   const StepGradients::EndGroup& completed = {}) {
    return gradients_.compute(rows, model, *strategy_, round, completed);
  }
  // The same where no model gives them: memory for all gradients, laid out as the params, which the
  // caller sets to those of the mean loss over its rows of the round, and then says so.
  tensor::Arena& gradients() { return gradients_.whole(); }
  void gradients_ready(const Round& round, const StepGradients::EndGroup& completed = {}) {
    gradients_.hand_over(*strategy_, round, completed);
  }
  // Exchanges what the method sends, waits for what is committed, and updates the weights. Throws
  // Aborted if another worker ended the run, Error if the exchange failed.
  AppliedStep apply(const Round& round);

  // Whether there are other replicas, with which digests are compared.
  bool compares() const {
    return parts_.kind == method::RunKind::kHosted || recipe_.train.workers > 1;
  }
  // Of the weights on which replicas agree.
  uint64_t digest() { return digest_.of(shared(), threads_); }

  // The weights on which replicas agree, and whether the params have something else than them.
  tensor::Arena& shared();
  bool evaluates_own() const { return strategy_->evaluates_own(); }
  // Swaps the params and the shared weights if they are separate, and returns whether they are.
  bool swap_shared();

  // Throws Error if anything that a checkpoint would hold is not finite, so that overflowed weights
  // are never published.
  void require_finite_state();
  // What a checkpoint after the completed steps holds of it.
  checkpoint::WorkerState state();

  // Throws Aborted or Error for a failure after `step`.
  [[noreturn]] void throw_failure(int64_t step, const Failure& failure) const;

 private:
  void restore();
  void share_frozen();
  optim::ShareOptimizer share_optimizer();
  void take_snapshot();
  // The name of something that a checkpoint would hold and that is not finite; empty: nothing.
  std::string not_finite();
  // All state besides the parameters, and the digest of the part on which replicas agree.
  std::vector<StateTensor> all_state();
  uint64_t consensus_digest();

  const ReplicaParts& parts_;
  const config::Recipe& recipe_;
  transport::Communicator& communicator_;
  ThreadPool threads_;
  PermitHold permits_;
  tensor::Arena params_;
  const std::unique_ptr<Relora> relora_;  // null unless the recipe says so
  StepGradients gradients_;
  std::unique_ptr<sync::Strategy> strategy_;  // null before start()
  std::unique_ptr<RoundSource> rounds_;
  ArenaDigest digest_;  // of the shared weights
  int64_t completed_;
};

}  // namespace thinwire::train
