// What connects a member's replica with the run: follows the ledger, keeps telling the coordinator
// how far the replica is and what it offers, and lets the worker wait for what others decide. One
// object per member; docs/hosts.md.
//
// Threads. The courier's thread brings records and statements; a thread of its own speaks to the
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
};

// A snapshot to begin with.
struct Beginning {
  uint64_t sequence = 0;  // the record up to which its state has come
  transport::BlobId content;
  std::vector<std::string> holders;
};

// Waits fail with kAborted once the member is to stop or its replica cannot go on (starts_over()).
class Follower {
 public:
  // Says hello at once. Everything referred to must outlive it.
  Follower(transport::Courier& courier, const Signer& signer, const membership::RecipePlan& plan,
           FollowerSettings settings);
  // Says nothing more.
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // --- the replica's life
  // Waits until the ledger says with which snapshot to begin. kRefused: the member may not join.
  Result<Beginning> wait_beginning();
  // Whether the run no longer goes on from there: the ledger turned out to be another one, or it
  // says to begin with another snapshot.
  bool is_obsolete(const Beginning& beginning) const;
  // The replica holds this snapshot, of `completed` training steps, and begins to go on from there.
  // False, and nothing begins, if that is obsolete.
  bool begin(const Beginning& beginning, int64_t completed);
  // The replica is gone.
  void end();
  // Whether the replica's waits have ended because it has to start over, and why.
  std::optional<std::string> starts_over() const;
  bool stopped() const;
  // Ends all waits of the replica; the next begin() allows new ones.
  void end_waits();
  // Says how far its replica is and that it leaves, and waits for at most `seconds` until the
  // network has accepted this. Nothing is said after it.
  void say_goodbye(double seconds);

  // --- the worker's
  // This member's id; -1 before it has one.
  int id() const;
  // Waits until the round is open, or was.
  Result<membership::Opening> opening(uint64_t round);
  // Waits until the round is closed.
  Result<thinwire::Commit> commit(uint64_t round, uint32_t fragment);
  // The payloads of a commit, in its order; waits until all are here.
  Result<std::vector<std::shared_ptr<const Bytes>>> payloads(const Commit& commit);
  // Hands `payload` to the store, and offers it until its round is closed. `seconds`: spent
  // computing the round.
  void offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds);
  // Lets so many seconds pass, or returns once the replica is to end.
  void rest(double seconds);
  // The replica has completed `steps` steps.
  void completed(int64_t steps);
  // The digest of the weights after `steps` completed steps.
  void digest(int64_t steps, uint64_t digest);
  // Whether the coordinator wants a snapshot, and one can be made after `steps` completed steps.
  bool wants_snapshot(int64_t steps) const;
  // Stores it, and announces it until the ledger has it.
  void give_snapshot(int64_t steps, Bytes content);

 private:
  class Impl;
  const std::shared_ptr<Impl> impl_;
};

}  // namespace thinwire::member
