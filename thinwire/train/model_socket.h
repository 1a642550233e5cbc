// A model of another process: the run is here, and losses and gradients are computed there, by
// whoever is at the other end of a socket. The Python package is (docs/python.md); anything that
// speaks the protocol may be.
//
// The idea: weights and gradients lie in memory that both processes have mapped. So no tensor goes
// through the socket, only lines of JSON; the processes have nothing else in common, and the end of
// one is no more than a closed socket to the other.
//
// The socket is a connected Unix stream socket. The peer begins, with the tensors that its model is
// for, as lines of external.tensors, or none if any will do:
//
//   {"tensors": ["in 32x1", "offset 32", "out 1x32"]}
//
// With "tokens": true it may also be a language model that Thinwire computes as well, of which
// other members of the run do; tensors are then compared by their names. With "sets_gradients":
// true it sets all of them in each step, where others add to zeros.
//
// From then on each line of the program says in "kind" what it is:
//
//   {"kind": "initial", "memory": {…}}
//       Only where a new run begins that is not joined and has no MPI ranks. With the line comes a
//       descriptor (SCM_RIGHTS): memory with the weights as they were drawn, which the peer may
//       change. It answers {"ready": true}.
//   {"kind": "worker", "worker": 0, "memory": {…}, "recipe": {"run": {"name": …, …}, …}}
//       A worker begins, or one of a joined run starts over. Two descriptors come with the line:
//       its weights and its gradients, which stay where they are. They take the place of those that
//       the worker had before. The recipe has every field of the run. No answer.
//   {"kind": "rows", "worker": 0, "step": 7, "learning_rate": 0.001, "rows": [[448, 64]]}
//       The gradients are zero unless the peer sets them: it adds to them those of the mean loss
//       over the rows, here 448 to 511, and answers {"worker": 0, "step": 7, "loss": 2.31}; the
//       loss is null where it is no finite number, and left out where the peer does not know it.
//       `step` counts from 0, and the answer repeats it. Several workers ask each for itself,
//       without waiting for the answers of others. With a language model, "tokens": [64, 1025] says
//       the shape of int32 values in memory whose descriptor comes with the line: each row's inputs
//       are all but the last, its targets all but the first, and the loss is the mean over all
//       targets. The answer may have a "learning_rate" for the step (OwnAnswer). With optim.method
//       = own the peer leaves the gradients' memory alone and takes the step itself: it says
//       {"worker": 0, "step": 7, "changes": true}, changes the weights, and answers, also with the
//       "gradient_norm". The line has "begins": true where the worker has got new weights from
//       others, so that the peer's optimizer is to forget what it has seen.
//   {"kind": "step", …}, {"kind": "evaluation", …}, {"kind": "checkpoint", …}, {"kind": "message",
//   "text": …}
//       What happened, with the fields of thinwire/events.h. No answer.
//   {"kind": "result", "end": {…}} or {"kind": "error", "message": …}
//       The last line. The end is that of events::result_line().
//
// "memory" is {"bytes": …, "tensors": [{"name": …, "shape": […], "role": …, "offset": …}, …]}:
// float32 values, row-major; the offset is in bytes.
//
// The peer may say {"stop": true} at any time: the run ends as soon as its workers agree on a step,
// up to which they go on asking. Where no answers will come any more, it closes the socket, or its
// writing half to still hear the result. Then a run of one worker, a member of a joined one
// included, ends before the step whose gradients are missing, with a checkpoint; several workers of
// one process cannot agree on such a step, and the run goes back to its last checkpoint. It does so
// as well where the peer was changing weights.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "thinwire/base/local_link.h"
#include "thinwire/base/mutex.h"
#include "thinwire/events/progress.h"
#include "thinwire/events/run_log.h"
#include "thinwire/events/summary.h"
#include "thinwire/train/own_learner.h"

namespace thinwire::train {

// Must outlive the run. Used by the run's threads; report() by the one that runs it.
class ModelSocket final : public events::Listener {
 public:
  // Owns the descriptor and waits for the peer's first line. interrupted: a second way to stop the
  // run. left_early: called on another thread if the peer closes its side before begin(). Throws
  // UsageError for a descriptor that is no socket, Error for a peer that does not speak the
  // protocol.
  ModelSocket(int socket, const std::atomic<bool>& interrupted,
              std::function<void()> left_early = {});
  ~ModelSocket() override;

  // Its functions throw NotComputed once the peer has closed its side, Error for anything that it
  // should not have said.
  const OwnModel& model() const { return model_; }
  // Whether the run is to end, because the peer or `interrupted` says so.
  const std::atomic<bool>& stop() const { return stop_; }
  // Messages go to the peer; there is no progress.
  events::Display display();

  // From here on there is work to lose, and the run looks whether to stop.
  void begin();
  // Calls `run` and tells the peer how it ended. Throws what that throws, and Error if the run has
  // stopped because of what the peer should not have said.
  void report(const std::function<events::RunResult()>& run);

  void on_event(const events::StepEvent& event) override;
  void on_event(const events::EvalEvent& event) override;
  void on_event(const events::MessageEvent&) override {}  // the display gets it as well
  void on_event(const events::WorkerStep&) override {}
  void on_checkpoint(const events::CheckpointEvent& event) override;

 private:
  using Json = nlohmann::ordered_json;
  using Memory = std::shared_ptr<SharedMemory>;
  struct Question {
    int64_t step = 0;
    std::optional<OwnAnswer> answer = {};
    bool changes = false;  // the peer changes the weights
  };

  void send(const Json& line, std::span<const int> files = {});
  // Hears the peer until it closes its side, or is wrong.
  void listen();
  void take(const std::string& line);
  void take_of_worker(const Json& said) REQUIRES(mutex_);
  // No answers will come. wrong: what the peer did; empty: it has closed its side.
  void end_answers(const std::string& wrong);
  // What the peer should not have said; empty: nothing.
  std::string what_was_wrong();
  // Waits until `is_there`, or throws because no answers will come.
  void await(const std::function<bool()>& is_there) REQUIRES(mutex_);

  std::span<float> make_memory(const tensor::Layout& layout);
  // The memory of an arena, which is then some worker's.
  Memory claim(const tensor::Arena& arena) REQUIRES(mutex_);
  OwnLoss begin_worker(const OwnWorker& worker);
  OwnAnswer ask(int worker, const OwnStep& step);
  void send_question(Json line, const OwnStep& step);
  void set_initial(tensor::Arena& weights);

  LineSocket socket_;
  const std::atomic<bool>& interrupted_;
  const std::function<void()> left_early_;
  OwnModel model_;
  std::atomic<bool> stop_ = false;

  Mutex mutex_;
  Condition changed_;
  std::vector<Memory> unclaimed_ GUARDED_BY(mutex_);
  std::map<int, std::vector<Memory>> claimed_ GUARDED_BY(mutex_);  // by worker
  std::map<int, Question> questions_ GUARDED_BY(mutex_);           // by worker that waits
  bool asks_ready_ GUARDED_BY(mutex_) = false;
  bool ready_ GUARDED_BY(mutex_) = false;
  bool begun_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;  // no answers will come
  std::string wrong_ GUARDED_BY(mutex_);

  std::atomic<bool> closing_ = false;
  std::thread listener_;
};

}  // namespace thinwire::train
