// One worker of a run: its replica of the model and the loop that trains it. Its own thread calls
// run(); workers interact only through their Communicator and the RunSink.
#pragma once

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
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/model/model.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/params_digest.h"
#include "thinwire/train/reference.h"
#include "thinwire/train/relora.h"
#include "thinwire/train/round_source.h"
#include "thinwire/train/run_sink.h"
#include "thinwire/train/run_tasks.h"
#include "thinwire/train/simulated_compute.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::train {

// The run was ended from elsewhere; the reason is another worker's exception.
class Aborted : public Error {
 public:
  using Error::Error;
};

// What all workers of a run share; it must outlive them.
struct RunContext {
  const config::Recipe& recipe;
  const tensor::Layout& layout;
  InitialParameters& initial;  // at the start, or from the checkpoint
  uint64_t run_id = 0;
  int64_t first_step = 0;
  const data::Rows& rows;
  const std::map<std::string, data::Rows>& validation;
  CorePermits& cores;
  RunSink& sink;
  const checkpoint::CheckpointReader* resume =
      nullptr;  // the checkpoint to resume from; null: a new run
  std::shared_ptr<transport::SimulatedNetwork> simulation;  // null: links are not simulated
  int64_t ended_at = 0;  // steps after which the run had ended, before it was extended; 0: never
  std::set<std::string> evaluated;  // evaluations after first_step that are already recorded
  checkpoint::BestLoss best;        // of the recorded evaluations of eval.watch
  MakeRounds make_rounds = recipe_rounds;
  // Consensus state, by name, that goes with `initial` where a run of many hosts is joined after
  // first_step steps; null: none.
  const std::map<std::string, std::vector<float>>* consensus = nullptr;
  // Null: all tensors are trained, or each worker has frozen ones of its own, from `initial`.
  std::shared_ptr<const FrozenWeights> frozen = {};
  std::span<const RunTask> tasks = {};  // that evaluations score as well
  std::optional<int> part = {};  // of the checkpoint, which a worker takes; none: that of its rank
  std::shared_ptr<const Reference> reference = {};  // null unless preferences are learnt
  method::RunKind kind = method::RunKind::kJob;
  RoundObserver* observer = nullptr;  // of a worker that only follows; may be null
  Site* site = nullptr;               // ranks that compute this worker's gradients with it
};

struct RunEnd {
  int64_t steps = 0;          // completed
  bool finished = false;      // nothing is left to do
  checkpoint::BestLoss best;  // with eval.patience
};

class Worker {
 public:
  Worker(const RunContext& context, transport::Communicator& communicator);
  ~Worker();

  // Trains to the end of the recipe or until the run is stopped, then writes a checkpoint. Throws
  // Error if the loss or the gradient is no longer finite, Aborted if another worker ended the run.
  RunEnd run();

 private:
  // The rows that this worker takes, by step, as currently planned.
  data::Prefetcher::Order order() const;
  // The round of the newest of the completed steps.
  Round last_round(int64_t completed) const;
  double simulated_clock() const;
  // Returns whether the rows of later steps have changed.
  bool train_step(int64_t step, const data::Batch& batch, double data_s);
  [[noreturn]] void throw_failure(int64_t step, const Failure& failure) const;
  // Adds its results to the part.
  void compute_gradients(const Round& round, const data::Batch& batch, StepPart& part);
  // Returns false if the run was stopped meanwhile.
  bool evaluate(int64_t completed);
  bool evaluate_sets(int64_t completed, const std::string& suffix, int64_t& passes);
  // suffix: of the name under which it is shown.
  std::optional<EvalPart> evaluate_rows(int64_t completed, const std::string& set,
                                        const std::string& suffix, int64_t& passes);
  bool evaluate_tasks(int64_t completed, int64_t& passes);
  // Null if the run was stopped meanwhile.
  std::optional<std::vector<eval::MetricSum>> score_task(int64_t completed, const RunTask& task,
                                                         model::Scorer& scorer, int64_t& passes);
  // Whether eval.patience is exhausted after the evaluation that produced the part.
  bool exhausts_patience(int64_t completed);
  // Whether it shows progress and saves the shared state.
  bool leads(const Round& round) const;
  void show_observer(const Round& round);
  // Swaps the params and the shared weights if they are separate.
  void swap_shared();
  tensor::Arena& shared();
  // All state besides the parameters, and the digest of the part on which replicas agree.
  std::vector<StateTensor> all_state();
  uint64_t consensus_digest();
  // Checks everything that a checkpoint would hold, so that overflowed weights are never published.
  void require_finite_state(int64_t completed);
  // Does nothing if it has already been written, or if nothing has been trained yet.
  void write_checkpoint(int64_t completed);
  // The frozen tensors that the model computes with, if there are any.
  const tensor::Arena* frozen() const;
  void restore();
  void take_consensus();
  checkpoint::WorkerState state(int64_t completed);

  const RunContext& context_;
  const config::Recipe& recipe_;
  transport::Communicator& communicator_;
  const int64_t max_rows_;
  ThreadPool threads_;
  PermitHold permits_;
  tensor::Arena params_;
  const std::unique_ptr<Relora> relora_;  // null unless the recipe says so
  StepGradients gradients_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<sync::Strategy> strategy_;
  SimulatedCompute simulated_compute_;
  std::unique_ptr<RoundSource> rounds_;
  ArenaDigest digest_;  // of the shared weights
  int64_t written_;     // steps of this worker's newest checkpoint, or where it began
  checkpoint::BestLoss best_;
  std::optional<EvalPart> watched_;  // this worker's part of the last evaluation of eval.watch
};

}  // namespace thinwire::train
