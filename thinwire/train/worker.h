// One worker of a run: its replica of the model and the loop that trains it. A thread of its own
// calls run(); workers meet only through their Communicator and the RunSink.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/threads.h"
#include "thinwire/checkpoint/best_loss.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/prefetch.h"
#include "thinwire/data/rows.h"
#include "thinwire/model/model.h"
#include "thinwire/sync/strategy.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/gradients.h"
#include "thinwire/train/initial_parameters.h"
#include "thinwire/train/measured_speeds.h"
#include "thinwire/train/run_sink.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::train {

// The run was ended from elsewhere; the reason is somebody else's exception.
class Aborted : public Error {
 public:
  using Error::Error;
};

// What all workers of a run share; outlives them.
struct RunContext {
  const config::Recipe& recipe;
  const tensor::Layout& layout;
  InitialParameters& initial;  // at the start, or of the checkpoint
  uint64_t run_id = 0;
  int64_t first_step = 0;
  const data::Rows& rows;
  const std::map<std::string, data::Rows>& validation;
  CoreSlots& cores;
  RunSink& sink;
  const checkpoint::CheckpointReader* resume =
      nullptr;  // where the run continues from; null: a new run
  std::shared_ptr<transport::SimulatedNetwork> simulation;  // null: links are not simulated
  int64_t ended_at = 0;  // steps after which it had ended, before it was given more; 0: never
  std::set<std::string> evaluated;  // evaluations after first_step that are recorded already
  checkpoint::BestLoss best;        // of the evaluations of eval.watch that are recorded
};

struct RunEnd {
  int64_t steps = 0;          // completed
  bool finished = false;      // nothing of the run is left to do
  checkpoint::BestLoss best;  // with eval.patience
};

class Worker {
 public:
  Worker(const RunContext& context, transport::Communicator& communicator);
  ~Worker();

  // Trains to the end of the recipe or until the run is stopped, with a checkpoint. Throws Error
  // when the loss or the gradient stops being finite, Aborted when another worker ended the run.
  RunEnd run();

 private:
  Round round_at(int64_t step) const;
  // The rows this worker takes, by step, with the speeds of now.
  data::Prefetcher::Order order() const;
  double simulated_clock() const;
  // Whether later steps' rows are other ones than before it.
  bool train_step(int64_t step, const data::Batch& batch, double data_s);
  [[noreturn]] void throw_failure(int64_t step, const Failure& failure) const;
  // Adds what it finds to the part.
  void compute_gradients(const Round& round, const data::Batch& batch, StepPart& part);
  // False: the run was stopped meanwhile.
  bool evaluate(int64_t completed);
  bool evaluate_sets(int64_t completed, const std::string& suffix, int64_t& passes);
  std::optional<EvalPart> evaluate_rows(int64_t completed, const std::string& name,
                                        const data::Rows& rows, int64_t& passes);
  // Whether eval.patience is at its end after the evaluation that gave the part.
  bool exhausts_patience(int64_t completed);
  // Exchanges the params and the shared weights where they are apart.
  void swap_shared();
  tensor::Arena& shared();
  // All state besides the parameters, and the digest of what replicas agree on of it.
  std::vector<StateTensor> all_state();
  uint64_t consensus_digest();
  // What a checkpoint would hold; weights that overflowed are never published as good.
  void require_finite_state(int64_t completed);
  // Does nothing where it was written already, or nothing was trained yet.
  void write_checkpoint(int64_t completed);
  void restore();
  checkpoint::WorkerState state();

  const RunContext& context_;
  const config::Recipe& recipe_;
  transport::Communicator& communicator_;
  const int64_t max_rows_;
  ThreadPool threads_;
  SlotHold slots_;
  tensor::Arena params_;
  StepGradients gradients_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<sync::Strategy> strategy_;
  MeasuredSpeeds speeds_;
  int64_t written_;  // steps of this worker's newest checkpoint, or where it began
  checkpoint::BestLoss best_;
  std::optional<EvalPart> watched_;  // this worker's part of the newest evaluation of eval.watch
};

}  // namespace thinwire::train
