// What computes a worker's losses and gradients: a language model over the run's corpus, or a model
// of the program that embeds Thinwire. Belongs to one worker and is used by its thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/round.h"
#include "thinwire/data/rows.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/train/collector.h"
#include "thinwire/train/reference.h"
#include "thinwire/train/replica.h"
#include "thinwire/train/run_tasks.h"

namespace thinwire::train {

// The gradients of a step will not come, because whoever computes them has ended the run.
class NotComputed : public Error {
 public:
  using Error::Error;
};

class Learner {
 public:
  // Which rows a step takes; may be called on another thread, and wait there for a round.
  using Order = data::Prefetcher::Order;
  // Called before each pass of an evaluation with the share of it that is done. Returns whether to
  // go on.
  using BeforePass = std::function<bool(double done)>;

  virtual ~Learner() = default;

  // The weights have changed, or those that are not trained.
  virtual void refresh() {}
  virtual void refresh_frozen() {}

  // From `step` on, steps take the rows that this says.
  virtual void read_from(int64_t step, Order order) = 0;
  // Reads the next step's rows and returns their number.
  virtual uint64_t read() = 0;
  // Computes their gradients, at least one row's, into the replica, and sets what the part says of
  // rows and losses, and its learning rate if that is to be another than the round's. completed:
  // called for each group of gradients that is complete. Throws NotComputed, with everything but
  // the gradients as it was.
  virtual void gradients(const Round& round, const StepGradients::EndGroup& completed,
                         StepPart& part) = 0;

  // What can be evaluated. The worker's share of a set; nothing if that was interrupted.
  virtual std::vector<std::string> sets() const { return {}; }
  virtual std::optional<EvalPart> evaluate(const std::string& /*set*/, const Round& /*round*/,
                                           const BeforePass& /*before*/) {
    return std::nullopt;
  }
  // The same for tasks: the metrics of the worker's share of each.
  virtual std::span<const RunTask> tasks() const { return {}; }
  virtual std::optional<std::vector<eval::MetricSum>> score(const RunTask& /*task*/,
                                                            const Round& /*round*/,
                                                            const BeforePass& /*before*/) {
    return std::nullopt;
  }

  // Shows an observer the weights.
  virtual void show(RoundObserver& /*observer*/, const Round& /*round*/) {}
};

// Called on the worker's thread, before the replica has started. What it makes lives shorter than
// the replica.
using MakeLearner = std::function<std::unique_ptr<Learner>(Replica& replica)>;

// What a language model trains and is evaluated on; must outlive the workers.
struct RunData {
  const data::Rows& rows;
  const std::map<std::string, data::Rows>& validation;
  std::span<const RunTask> tasks = {};              // that evaluations score as well
  std::shared_ptr<const Reference> reference = {};  // null unless preferences are learnt
};

// The model of the recipe, with tensors of this layout.
MakeLearner language_learner(RunData data, const tensor::Layout& layout);

// The rows of the round that are this worker's.
std::vector<uint64_t> rows_of(const Round& round, int member);

}  // namespace thinwire::train
