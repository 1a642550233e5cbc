// Connects a member's replica to the run: follows the ledger, regularly reports the replica's
// position and its offers to the coordinator, and makes the worker wait for decisions. What it says
// and does is its machine's decision (member_machine.h); this is the network and the waiting. One
// object per member; docs/hosts.md.
//
// Threads. The courier's thread delivers records and statements; a separate thread sends to the
// coordinator; the worker's threads wait. All functions are thread-safe, and none holds a lock
// while it calls the courier, but to ask whether it is denied.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/member/member.h"
#include "thinwire/member/member_machine.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::member {

struct FollowerSettings {
  MachineSettings machine;
  const std::atomic<bool>* stop = nullptr;
  MemberHooks hooks = {};
  std::string keeper = {};  // as of MemberOptions
};

// How long a member that is told to stop still waits for decisions, so that it can complete its
// step and write a checkpoint: a fortieth of the time-out, at most this; not at all once the run
// cannot be reached.
inline constexpr double kMaxLingerSeconds = 5;

// Waits fail with kAborted once the replica has to start over (starts_over()), or soon after the
// member is told to stop.
class Follower {
 public:
  // Sends a join request at once. Everything referred to must outlive it.
  Follower(transport::Courier& courier, const Signer& signer, const membership::StepPlan& plan,
           FollowerSettings settings);
  // Sends nothing more.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // --- the replica's life

  // Waits until the whole ledger has been read and it is known what to start from. That is the
  // checkpoint, once, if the ledger continues from it and replaying takes fewer bytes than a
  // snapshot. kRefused: the member may not join.
  Result<StartState> wait_start_state();
  // Whether a replica can no longer start from this: the ledger's history has changed, or it now
  // assigns another snapshot.
  bool is_obsolete(const StartState& start) const;
  // Whether there is a later snapshot, with which wait_start_state() answers from now on: this one
  // cannot be fetched.
  bool skip(const StartState& start);
  // The replica has loaded this state, of `completed` training steps, and continues from it. Does
  // nothing and returns false if the state is obsolete.
  bool begin(const StartState& start, int64_t completed);
  // The rounds that the replica follows without computing them, as of begin().
  ReplayedRounds replayed() const;
  // The replica has been discarded.
  void end();
  // Why the replica has to start over, which ends its waits; nothing if it need not.
  std::optional<std::string> starts_over() const;
  // Why the member may not take part, or no longer: it was refused or excluded, or the network does
  // not let it in. That ends its waits, too, and wait_start_state fails; nothing if it may.
  std::optional<std::string> refused() const;
  bool stopped() const;
  // Shows why nothing arrives: the run cannot be reached, or its coordinator has fallen silent.
  void show_why_silent();
  // Ends all waits of the replica; the next begin() allows new ones.
  void end_waits();
  // Reports the replica's position and that the member leaves, and waits for at most `seconds`
  // until the network has accepted this, not at all if it cannot be reached. Nothing is sent
  // afterwards.
  void announce_leaving(double seconds);

  // --- for the worker
  // This member's id; -1 before it has one.
  int id() const;
  // Waits until the round has been opened.
  Result<membership::Opening> opening(uint64_t round);
  // The same for a round in the middle of a step, whose operations follow others: meanwhile this
  // replica is as far as it can get.
  Result<membership::Opening> reach(uint64_t round);
  // Waits until the round is closed.
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  // The payloads of a commit, in its order; waits until all have arrived.
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  // The sum of what a commit lists, encoded and multiplied by `factor`, if the coordinator forms it
  // (sync::SumRule); waits until it has arrived. Null: it has to be formed from payloads(),
  // because the coordinator does not form it, has not said within a twentieth of the time-out that
  // it has, or formed another one, or because nobody has it any more.
  Result<std::shared_ptr<const Bytes>> sum(const Commit& commit, float factor);
  // Announces and stores `payload`, and offers it until its round is closed, or, if late
  // contributions count, until it may no longer. `spent`: in the round.
  void offer(uint64_t round, uint32_t fragment, Bytes payload, const membership::Spent& spent);
  // What evaluations up to `steps` completed steps have decided, in the order of their steps; waits
  // for the one after `steps`, if `due`.
  Result<std::vector<membership::Evaluation>> evaluations(int64_t steps, bool due);
  // Whether an evaluation after so many steps has ended the run or is still to be decided.
  bool may_end_after(uint64_t steps) const;
  // Waits for `seconds`, or until the replica has to end.
  void pause_for(double seconds);
  // The replica has completed `steps` steps.
  void completed(int64_t steps);
  // Its loss in the last of these steps, and in an evaluation after them: sums over `tokens`
  // tokens.
  void trained(int64_t steps, double loss_sum, int64_t tokens);
  void evaluated(int64_t steps, const std::string& set, double loss_sum, int64_t tokens);
  // The digest of the weights after `steps` completed steps.
  void digest(int64_t steps, uint64_t digest);
  // The place of a checkpoint after `steps` completed steps; nothing if nobody could continue from
  // it.
  std::optional<Place> place(int64_t steps) const;
  // The ledger's last records, by number, as far as a checkpoint should hold them.
  std::map<uint64_t, Bytes> last_records() const;
  // Whether the coordinator wants a snapshot, and one can be made after `steps` completed steps.
  bool wants_snapshot(int64_t steps) const;
  // Stores the snapshot, and announces it until the ledger lists it.
  void store_snapshot(int64_t steps, Bytes content);
  // Makes none: the coordinator, when it has waited for it, asks again, and mostly another member.
  void decline_snapshot();

  // --- for audits
  // The end of a round; nothing while it is not closed.
  std::optional<membership::Closing> closing(uint64_t round) const;
  // The payload of a contribution; null if nobody has it any more.
  Result<std::shared_ptr<const Bytes>> payload(const Contribution& contribution);
  void report(const membership::Audit& audit);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace thinwire::member
