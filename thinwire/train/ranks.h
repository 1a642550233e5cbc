// A run whose workers are on the ranks of an MPI job, one or several on each. Rank 0 leads: it
// alone writes the run folder, and the others hand their workers' parts in to it by notes.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/train/desk.h"
#include "thinwire/transport/mpi.h"

namespace thinwire::train {

class Ranks {
 public:
  // Throws UsageError when the job has more than `workers` ranks. links: see join_mpi_job. stop:
  // set from outside, on any rank, to end the run in order; may be null.
  Ranks(int workers, std::vector<links::Link> links, const std::atomic<bool>* stop);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool leads() const { return job_->rank() == 0; }
  int members_here() const { return job_->first_member(job_->rank() + 1) - first_member(); }
  // One for each worker of this rank; may outlive neither this nor the job.
  std::vector<std::unique_ptr<transport::Peers>> make_peers();
  // Ends the run on all ranks.
  void abort(const std::string& reason) { hub().abort(reason); }

  // What the leader found out before the others may look at the run folder.
  struct Start {
    bool finished = false;   // there is nothing to train
    std::string checkpoint;  // to go on from; empty: a new run
  };
  // The leader tells it, the others wait for it. Throws Error when another rank ended the run.
  void tell(const Start& start);
  Start hear();

  // Leader: parts of the others go to `desk` as long as this lives, once a run. What the desk
  // throws ends the run.
  class Service {
   public:
    Service(Ranks& ranks, Desk& desk);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

   private:
    Ranks& ranks_;
  };
  // As Desk::stops_before, on every rank: the leader asks how far the others are, and they wait
  // before their next step until it has said where all stop. Throws Aborted.
  bool stops_before(int64_t step);
  // Leader: waits until all parts of all ranks are in. Throws Error when that cannot be any more.
  void wait_for_parts();
  // Others: a desk that passes everything on to the leader's, and that it is all.
  std::unique_ptr<Desk> remote_desk();
  void all_handed_in();

 private:
  void take_note(std::span<const uint8_t> note);
  void take_part(uint8_t kind, ByteReader& reader);
  void take_checkpoint(int64_t step, int worker, ByteReader& note);
  void take_stop_note(uint8_t kind, ByteReader& note);
  void note_all(const Bytes& note);
  int first_member() const { return job_->first_member(job_->rank()); }
  // Notes between ranks go between their first members.
  transport::FrameHub& hub() { return *job_->hub(first_member()); }
  // Leader, with stop_mutex_ held: asks the others how far they are, and hears the answers.
  void ask_for_steps();
  void hear_step(int64_t allowed);

  const int workers_;
  std::mutex desk_mutex_;
  Desk* desk_ = nullptr;  // leader: null before and after its service
  Bytes start_;           // others: as told
  std::atomic<bool> told_ = false;
  const std::atomic<bool>* stop_;
  std::mutex stop_mutex_;
  bool wished_ = false;                  // others: have asked the leader to end the run
  bool stopping_ = false;                // the leader wants to know, or knows, where all stop
  int64_t allowed_step_ = -1;            // the latest that this rank trains or has trained
  int64_t latest_step_ = -1;             // leader: of all that have answered
  int answers_ = 0;                      // leader
  std::atomic<int64_t> stop_step_ = -1;  // first step that nobody trains; -1: not known
  std::atomic<int> complete_ = 0;        // leader: ranks that have handed in everything
  // Last, for the job's thread uses what is above until it goes.
  std::unique_ptr<transport::MpiJob> job_;
};

}  // namespace thinwire::train
