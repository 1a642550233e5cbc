// Connects a member's replica with the run: follows the ledger, regularly reports the replica's
// position and its offers to the coordinator, and lets the worker wait for decisions of others. One
// object per member; docs/hosts.md.
//
// Threads. The courier's thread delivers records and statements; a separate thread sends to the
// coordinator; the worker's threads wait. All functions are thread-safe, and none holds a lock
// while it calls the courier.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/member/member.h"
#include "thinwire/member/place.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::member {

struct FollowerSettings {
  membership::Founding founding;
  double timeout_s = 1800;  // sync.timeout_s, from which all times derive
  double down_bytes_s = 0;
  const std::atomic<bool>* stop = nullptr;
  MemberHooks hooks = {};
  std::optional<Place> checkpoint = {};  // where this member's newest checkpoint stands
};

// What to begin with: this member's checkpoint, or a snapshot.
struct Beginning {
  uint64_t sequence = 0;  // the record up to which its state has come
  bool checkpoint = false;
  transport::BlobId content;  // of the snapshot
  std::vector<std::string> holders;
};

// How long a member that is to stop still waits for what is decided, so that it can complete its
// step and keep what it has: a fortieth of the time-out, at most this.
inline constexpr double kMostLingeringSeconds = 5;

// Waits fail with kAborted once the replica cannot go on (starts_over()), or soon after the member
// is to stop.
class Follower {
 public:
  // Sends a join request at once. Everything referred to must outlive it.
  Follower(transport::Courier& courier, const Signer& signer, const membership::RecipePlan& plan,
           FollowerSettings settings);
  // Sends nothing more.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // --- the replica's life
  // Waits until the whole ledger was read and it is clear with what to begin. A checkpoint is taken
  // once, where the ledger goes on from it and that is less to receive than a snapshot. kRefused:
  // the member may not join.
  Result<Beginning> wait_beginning();
  // Whether the run no longer continues from there: the ledger turned out to be a different one, or
  // it now names another snapshot.
  bool is_obsolete(const Beginning& beginning) const;
  // The replica holds this beginning, of `completed` training steps, and goes on from there.
  // False, and nothing begins, if that is obsolete.
  bool begin(const Beginning& beginning, int64_t completed);
  // The replica is gone.
  void end();
  // Whether the replica's waits have ended because it has to start over, and why.
  std::optional<std::string> starts_over() const;
  bool stopped() const;
  // Ends all waits of the replica; the next begin() allows new ones.
  void end_waits();
  // Reports the replica's position and that the member leaves, and waits for at most `seconds`
  // until the network has accepted this. Nothing is sent afterwards.
  void announce_leaving(double seconds);

  // --- the worker's
  // This member's id; -1 before it has one.
  int id() const;
  // Waits until the round is open, or was.
  Result<membership::Opening> opening(uint64_t round);
  // Waits until the round is closed.
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  // The payloads of a commit, in its order; waits until all are here.
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  // Stores `payload`, and offers it until its round is closed. `seconds`: spent computing the
  // round.
  void offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds);
  // Waits for so many seconds, or until the replica has to end.
  void pause_for(double seconds);
  // The replica has completed `steps` steps.
  void completed(int64_t steps);
  // Its loss in the step that was completed then, and in an evaluation: a sum over so many tokens.
  void trained(int64_t steps, double loss_sum, int64_t tokens);
  void evaluated(int64_t steps, const std::string& set, double loss_sum, int64_t tokens);
  // The digest of the weights after `steps` completed steps.
  void digest(int64_t steps, uint64_t digest);
  // Where a checkpoint after `steps` completed steps stands; nothing: nobody could go on from it.
  std::optional<Place> place(int64_t steps) const;
  // Whether the coordinator wants a snapshot, and one can be made after `steps` completed steps.
  bool wants_snapshot(int64_t steps) const;
  // Stores it, and announces it until the ledger has it.
  void store_snapshot(int64_t steps, Bytes content);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace thinwire::member
