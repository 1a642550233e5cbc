// A run whose workers are on the ranks of an MPI job, one or several on each. Rank 0 leads: only it
// writes the run folder, and the other ranks send it their workers' parts as notes, which it
// processes on a thread of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/clock.h"
#include "thinwire/base/mutex.h"
#include "thinwire/events/progress.h"
#include "thinwire/launch/notes.h"
#include "thinwire/train/run_sink.h"
#include "thinwire/transport/mpi.h"

namespace thinwire::launch {

// Processes parts for the run folder on a separate thread, so that the thread that moves frames
// never waits for a disk.

// Thread-safe.
class PartWriter {
 public:
  // take: called with each added part, one after another, in the order in which they were added.
  // failed: called once with the message of an exception from `take`; nothing is taken after it.
  PartWriter(std::function<void(int from, const Bytes& part)> take,
             std::function<void(const std::string& reason)> failed);
  // Finishes the part being taken and drops the rest.
  ~PartWriter();
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;

  void add(int from, Bytes part);
  // Number of parts added so far.
  uint64_t added() const;
  // Returns when the first `count` added parts have been taken, or when no more will be.
  void wait_until_taken(uint64_t count);

 private:
  void run();

  const std::function<void(int, const Bytes&)> take_;
  const std::function<void(const std::string&)> failed_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<std::pair<int, Bytes>> parts_ GUARDED_BY(mutex_);
  uint64_t added_ GUARDED_BY(mutex_) = 0;
  uint64_t taken_ GUARDED_BY(mutex_) = 0;
  bool over_ GUARDED_BY(mutex_) = false;  // nothing more will be taken
  std::thread thread_;
};

class Ranks {
 public:
  // Throws UsageError when the job has more than `workers` ranks. stop: set from outside, on any
  // rank, to end the run cleanly; may be null. message: told by the leader for whom it waits.
  Ranks(int workers, std::unique_ptr<transport::MpiJob> job, const std::atomic<bool>* stop,
        events::MessageSink message);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool leads() const { return job_->rank() == 0; }
  int members_here() const { return job_->first_member(job_->rank() + 1) - first_member(); }
  // One for each worker of this rank; they must not outlive this object or the job.
  std::vector<std::unique_ptr<transport::Communicator>> make_communicators();
  // Ends the run on all ranks.
  void abort(const std::string& reason) { hub().abort(reason); }

  using Start = StartNote;
  // The leader broadcasts `start`, and the others wait for it. Throws Error if another rank ended
  // the run.
  void broadcast(const Start& start);
  Start await_broadcast();

  // Leader: the sink of its own workers; called once per run. As long as the sink exists, the other
  // ranks' parts go to `folder` as well; an exception from the folder then ends the run. A worker's
  // checkpoint waits until everything that arrived before its previous one is written, which limits
  // how much piles up.
  std::unique_ptr<train::RunSink> leader_sink(train::RunSink& folder);
  // As RunSink::stops_before, on every rank: the leader asks how far the others are, and they wait
  // before their next step until it has answered where to stop. Throws Aborted.
  bool stops_before(int64_t point);
  // As RunSink::checkpoint_due. Once the leader's folder needs a checkpoint, the leader asks in the
  // same way; the others train for about another second before they wait for the answer. Throws
  // Aborted.
  bool checkpoint_due(int64_t completed);
  // Leader: waits until all parts of all ranks have arrived. Throws Error if that can no longer
  // happen.
  void wait_for_parts();
  // Others: a sink that forwards everything to the leader. all_handed_in() then informs the leader
  // that nothing more follows.
  std::unique_ptr<train::RunSink> remote_sink();
  void all_handed_in();

 private:
  class LeaderSink;

  // Leader: what its sink writes into; null when there is none any more.
  void has_sink(PartWriter* writer, const train::RunSink* folder);
  void take_note(int from, Bytes note);
  void take_part(int from, const Bytes& note, train::RunSink& sink);
  void take_agreement_note(int from, const Note& note) EXCLUDES(agreement_mutex_);
  // Throws Error unless `worker` belongs to the rank whose first member is `from`.
  void check_worker(int from, int worker) const;
  void abort_for(int from, const std::string& what);
  void note_all(const Note& note);
  int first_member() const { return job_->first_member(job_->rank()); }
  // Notes between ranks are sent between their first members.
  transport::FrameHub& hub() { return *job_->hub(first_member()); }
  // An agreement among all ranks: what this rank knows and, on the leader, what the others
  // answered.
  struct Poll {
    train::AgreedPoint& agreement;
    int64_t margin = 0;
    int64_t latest = -1;  // point that a rank may have passed
    int answers = 0;
    bool asking = false;  // until the agreed action is done
    int64_t agreed() const { return latest + margin + 1; }
  };
  // Called on reaching a point; waits while it may not be passed. Returns the agreed point.
  int64_t reach(train::AgreedPoint& agreement, int64_t point);
  // Leader: asks the others how far they are, and receives the answers; true after the last answer,
  // when the agreed point must be sent to all.
  bool ask(Poll& poll, const Note& question) REQUIRES(agreement_mutex_);
  bool count_answer(Poll& poll, int64_t latest) REQUIRES(agreement_mutex_);
  void take_answer(int from, const Note& note) REQUIRES(agreement_mutex_);
  void take_question(int from, const Note& note) REQUIRES(agreement_mutex_);
  void ask_for_stop() REQUIRES(agreement_mutex_);
  void ask_for_checkpoint(int64_t completed) EXCLUDES(agreement_mutex_);

  const int workers_;
  Mutex writer_mutex_;
  // Leader: its sink's; null without one.
  PartWriter* writer_ GUARDED_BY(writer_mutex_) = nullptr;
  Start start_;  // others: as broadcast
  std::atomic<bool> start_known_ = false;
  const std::atomic<bool>* stop_;
  train::AgreedPoint stop_agreement_;
  train::AgreedPoint checkpoint_agreement_;
  Mutex agreement_mutex_;
  // It has asked for the run to end.
  bool requested_ GUARDED_BY(agreement_mutex_) = false;
  Poll stop_point_ GUARDED_BY(agreement_mutex_){stop_agreement_};
  Poll checkpoint_step_ GUARDED_BY(agreement_mutex_){checkpoint_agreement_};
  // Leader: the run folder's; null without a sink.
  const train::RunSink* folder_ GUARDED_BY(agreement_mutex_) = nullptr;
  // Leader: the first step it trained; -1: none yet.
  int64_t first_step_ GUARDED_BY(agreement_mutex_) = -1;
  const Stopwatch watch_;          // leader: since it began
  std::atomic<int> complete_ = 0;  // leader: ranks that have handed in everything
  // Declared last, because the job's thread uses the members above until it is destroyed.
  std::unique_ptr<transport::MpiJob> job_;
};

}  // namespace thinwire::launch
