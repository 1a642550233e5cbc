// One worker of a run: a replica (train/replica.h), a model and the loop that trains it. Its own
// thread calls run(); workers interact only through their Communicator and the RunSink.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/rows.h"
#include "thinwire/model/model.h"
#include "thinwire/train/reference.h"
#include "thinwire/train/replica.h"
#include "thinwire/train/run_sink.h"
#include "thinwire/train/run_tasks.h"
#include "thinwire/train/simulated_compute.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

// What the workers of a process train and are evaluated on.
struct RunData {
  const data::Rows& rows;
  const std::map<std::string, data::Rows>& validation;
  std::span<const RunTask> tasks = {};              // that evaluations score as well
  std::shared_ptr<const Reference> reference = {};  // null unless preferences are learnt
};

// What all workers of a process share; it must outlive them.
struct RunContext {
  ReplicaParts replica;
  const tensor::Layout& layout;
  RunData data;
  RunSink& sink;
  RoundObserver* observer = nullptr;  // of a worker that only follows; may be null
};

struct RunEnd {
  int64_t steps = 0;          // completed
  bool finished = false;      // nothing is left to do
  checkpoint::BestLoss best;  // with eval.patience
};

class Worker {
 public:
  Worker(const RunContext& context, transport::Communicator& communicator);

  // Trains to the end of the recipe or until the run is stopped, then writes a checkpoint. Throws
  // Error if the loss or the gradient is no longer finite, Aborted if another worker ended the run.
  RunEnd run();

 private:
  // The rows that this worker takes, by step, as currently planned.
  data::Prefetcher::Order order() const;
  double simulated_clock() const;
  // Returns whether the rows of later steps have changed.
  bool train_step(int64_t step, const data::Batch& batch, double data_s);
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
  void show_observer(const Round& round);
  void swap_shared();
  // Does nothing if it has already been written, or if nothing has been trained yet.
  void write_checkpoint(int64_t completed);

  const RunContext& context_;
  const config::Recipe& recipe_;
  transport::Communicator& communicator_;
  const int64_t max_rows_;
  Replica replica_;
  std::unique_ptr<model::Model> model_;
  SimulatedCompute simulated_compute_;
  int64_t written_;  // steps of this worker's newest checkpoint, or where it began
  checkpoint::BestLoss best_;
  std::optional<EvalPart> watched_;  // this worker's part of the last evaluation of eval.watch
};

}  // namespace thinwire::train
