// One worker of a run: a replica (train/replica.h), a model and the loop that trains it. Its own
// thread calls run(); workers interact only through their Communicator and the RunSink.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/gradient_groups.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/train/learner.h"
#include "thinwire/train/replica.h"
#include "thinwire/train/run_sink.h"
#include "thinwire/transport/communicator.h"
#include "thinwire/transport/simulated_network.h"

namespace thinwire::train {

// A worker's computation in virtual time (transport/simulated_network.h): a step takes what
// links.step_s says, more or less where the worker takes more or fewer rows than an even share, and
// the clock has come as far as the backward pass whenever that completes a group of gradients
// (method::completion_shares).
class SimulatedCompute {
 public:
  // simulation null: links are not simulated, and nothing happens. All must outlive this object.
  SimulatedCompute(const config::Recipe& recipe, const tensor::Layout& layout,
                   transport::SimulatedNetwork* simulation, int member);

  // A step in which the worker takes `rows` rows, perhaps none.
  void begin(int64_t rows);
  // The gradients of a group are complete.
  void completed(int group);
  // The rest of the step's computation. Returns the seconds of all of it; 0 without simulation.
  double end();

 private:
  void advance_to(double share);

  const config::Recipe& recipe_;
  const tensor::Layout& layout_;
  transport::SimulatedNetwork* const simulation_;
  const int member_;
  const std::vector<GradientGroup> groups_;
  std::vector<double> shares_;  // of a step of rows_, by group
  int64_t rows_ = 0;
  double steps_ = 0;  // the present step, in even ones
  double done_ = 0;   // share of it
};

// What all workers of a process share; it must outlive them.
struct RunContext {
  ReplicaParts replica;
  MakeLearner make_learner;
  RunSink& sink;
  RoundObserver* observer = nullptr;  // of a worker that only follows; may be null
};

struct WorkerEnd {
  int64_t steps = 0;          // completed
  bool finished = false;      // nothing is left to do
  checkpoint::BestLoss best;  // with eval.patience
  // Of the weights, of a worker that has nobody to compare them with in every step.
  std::optional<uint64_t> digest = {};
};

// Ends the name of a set that is evaluated with a worker's own weights, where these differ from the
// shared ones.
inline constexpr const char* kOwnWeightsSuffix = "_own";

class Worker {
 public:
  Worker(const RunContext& context, transport::Communicator& communicator);

  // Trains to the end of the recipe or until the run is stopped, then writes a checkpoint. Throws
  // Error if the loss or the gradient is no longer finite, Aborted if another worker ended the run.
  WorkerEnd run();

 private:
  WorkerEnd train();
  // Steps from this one on take the rows that are planned now.
  void read_from(int64_t step);
  double simulated_clock() const;
  // Whether a checkpoint after the completed steps is still what it would have been before this
  // step, whose gradients will not come: no worker waits for them, and the weights have not
  // changed.
  bool may_stop_within_step() const;
  // Returns whether the rows of later steps have changed.
  bool train_step();
  // Adds its results to the part.
  void compute_gradients(const Round& round, uint64_t rows, StepPart& part);
  // Return false if the run was stopped meanwhile. passes: forward passes so far.
  bool evaluate(int64_t completed);
  bool evaluate_sets(int64_t completed, const std::string& suffix, int64_t& passes);
  bool evaluate_tasks(int64_t completed, int64_t& passes);
  Learner::BeforePass before_pass(int64_t completed, std::string name, int64_t& passes);
  // Whether the evaluation was recorded before the run was resumed.
  bool is_recorded(int64_t completed, const std::string& name) const;
  // What the evaluation after these steps decides.
  Decided decide(int64_t completed);
  void show_observer(const Round& round);
  void swap_shared();
  // Does nothing if it has already been written, or if nothing has been trained yet.
  void write_checkpoint(int64_t completed);

  const RunContext& context_;
  const config::Recipe& recipe_;
  transport::Communicator& communicator_;
  Replica replica_;
  std::unique_ptr<Learner> learner_;
  SimulatedCompute simulated_compute_;
  bool looks_ahead_ = false;  // the weights changed as the present step began
  int64_t written_;           // steps of this worker's newest checkpoint, or where it began
  checkpoint::BestLoss best_;
  std::optional<EvalPart> watched_;  // this worker's part of the last evaluation of eval.watch
};

}  // namespace thinwire::train
