// Collects results from the members of a run without making them wait for each other: each hands in
// its part of a step or an evaluation, and the last one of the round's roster completes it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/mutex.h"
#include "thinwire/base/threads.h"
#include "thinwire/eval/metrics.h"
#include "thinwire/report/recorder.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::train {

// Sums over pairs of answers (events::Rewards).
struct PairSums {
  int64_t pairs = 0;
  int64_t right = 0;  // whose chosen answer has the larger reward
  double chosen = 0;  // rewards
  double rejected = 0;

  void add(const PairSums& other);
  // There must be at least one pair.
  events::Rewards means() const;
};

// One worker's part of one step.
struct StepPart {
  int64_t members = 0;  // in the round's roster: the number of parts of the step
  double loss_sum = 0;  // over its tokens that count, or over its pairs of answers
  int64_t tokens = 0;
  int64_t uncounted = 0;  // of them, those whose loss does not count
  double learning_rate = 0;
  double gradient_norm = 0;  // 0 without tokens
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  double data_s = 0;
  double compute_s = 0;
  double exchange_s = 0;
  double update_s = 0;
  double simulated_s = 0;          // by the worker's virtual clock; 0 if links are not simulated
  double simulated_compute_s = 0;  // likewise, only the computation
  bool lost_sum = false;           // the round's progress is lost (sync::StepReport)
  bool synchronised = false;
  uint64_t digest = 0;  // of the parameters, where synchronised
  // The same for the state that replicas agree on, if it was digested.
  uint64_t state_digest = 0;
  PairSums pairs;  // none unless preferences are learnt
};

struct EvalPart {
  int64_t members = 0;  // as in StepPart
  double loss_sum = 0;
  int64_t tokens = 0;  // whose loss counts; of pairs of answers, the pairs
  // True for a task's metric (eval::MetricSum), named "task.metric": its sum and weight take the
  // place of loss_sum and tokens.
  bool score = false;
  PairSums pairs = {};               // as in StepPart
  eval::ClassCounts classes = {};    // none unless classes are learnt
  eval::NumberMoments numbers = {};  // none unless numbers are learnt
};

// Thread-safe.
class Collector {
 public:
  explicit Collector(report::Recorder& recorder) : recorder_(recorder) {}

  // `step` counts completed steps. Throws Error when replicas that should agree do not.
  void add_step(int64_t step, int worker, const StepPart& part);
  // Returns the loss or the metric's value to the worker that completes the evaluation.
  std::optional<double> add_evaluation(int64_t step, const std::string& name, int worker,
                                       const EvalPart& part);
  void show_evaluation(int64_t step, const std::string& name, double fraction);
  // Writes everything recorded so far to disk.
  void sync();
  // A checkpoint is on disk. Time from here on counts as the next step's.
  void checkpoint_written(int64_t step);
  // Digest of the weights when workers last synchronised; nullopt if they have not yet.
  std::optional<uint64_t> last_digest() const;

 private:
  template <typename Part>
  using Parts = std::map<int, Part>;  // by member

  void complete_step(int64_t step, const Parts<StepPart>& parts) REQUIRES(mutex_);
  double record_loss(int64_t step, const std::string& name, const EvalPart& sum) REQUIRES(mutex_);
  double record_score(int64_t step, const std::string& name, const EvalPart& sum) REQUIRES(mutex_);
  // Logs how much each member trains, if that has changed.
  void note_shares(int64_t step, const Parts<StepPart>& parts) REQUIRES(mutex_);

  mutable Mutex mutex_;
  report::Recorder& recorder_ GUARDED_BY(mutex_);
  std::map<int64_t, Parts<StepPart>> steps_ GUARDED_BY(mutex_);
  std::map<std::pair<int64_t, std::string>, Parts<EvalPart>> evaluations_ GUARDED_BY(mutex_);
  std::optional<uint64_t> last_digest_ GUARDED_BY(mutex_);
  // Each member's in the last step, ordered by member.
  std::vector<int64_t> tokens_of_ GUARDED_BY(mutex_);
};

// The loss on a validation set that all workers evaluated together, for decisions that all must
// take in the same way: each sends its part, and each adds up all parts in the order of the
// members.

// The total after `completed` steps, with the same bits on every worker. Waits for the others, and
// gives its cores back meanwhile.
Result<double> shared_loss(transport::Communicator& communicator, PermitHold& permits, uint64_t run,
                           int64_t completed, const EvalPart& part, double timeout_s);

}  // namespace thinwire::train
