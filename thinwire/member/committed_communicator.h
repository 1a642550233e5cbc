// A communicator whose operations are decided by the ledger: contributions are blobs, announced by
// offers; an operation is complete when a round's closing lists the contributions that count; and
// every member fetches exactly these. A member that follows past rounds gets the same results from
// the ledger as the members that took part.
//
// Sums. They are formed in fp32 and in the order of the commit, with the arithmetic of
// transport/chunked_sum.h; so the bits are those of the other transports. The coordinator forms
// them for all members where sync.sums says so, and a member receives one encoded buffer.
// Otherwise, and where it hears of no sum in time, a member fetches all contributions and forms the
// whole sum itself; it then receives members - 1 encoded buffers. If the commit leaves members out,
// the sum is scaled up to a mean over those that it lists (sync/committed_sum.h). Where late
// contributions count (sync.late), a commit may also list those of the fragment's last turn. Sums
// of gathered payloads (sync::GatheredSums) come in the same way.
//
// A member that is in a round's roster but does not contribute to one of its operations offers an
// empty payload, which the commit lists and no member reads: the coordinator then knows that it
// need not wait. A replica does the same for rounds that were in flight in the snapshot it started
// from: it did not compute them, and if they are still open, there may be no other member to close
// them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/commit.h"
#include "thinwire/config/recipe.h"
#include "thinwire/config/sections.h"
#include "thinwire/member/follower.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/train/round_source.h"
#include "thinwire/transport/chunked_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::member {

class CommittedCommunicator final : public transport::Communicator {
 public:
  // The id of one that is no member, and follows.
  static constexpr int kNoMember = (1 << 20) - 1;

  // `id`: this member's, or kNoMember. `first_round`: the ledger's first round that this replica
  // computes. `late`: as sync.late. Both references must outlive it. Time-outs are ignored: it
  // waits for the ledger as long as the replica lives.
  // `contributes` is called before a contribution leaves the member, empty ones excepted; may be
  // empty.
  CommittedCommunicator(Follower& follower, const membership::RecipePlan& plan, int id,
                        uint64_t first_round, config::LateContributions late,
                        std::function<void()> contributes = {})
      : follower_(follower),
        plan_(plan),
        id_(id),
        first_round_(first_round),
        late_counts_(late == config::LateContributions::kCount),
        replayed_(follower.replayed()),
        next_incomplete_(first_round - std::min(first_round, plan.overlap())),
        contributes_(std::move(contributes)) {}

  // What this member spent on computing a step of a round of the ledger.
  void computed(uint64_t round, const membership::Spent& spent);
  // This member has completed all steps of a round of the ledger. Makes empty offers for operations
  // of this round that it did not start.
  void completed(uint64_t round);

  int rank() const override { return id_; }
  int size() const override { return kMaxMembers; }
  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override;
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override;
  Result<transport::Gathered> wait_gathered(const transport::Key& key, double timeout_s,
                                            const AcceptsSum& accepts) override;
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override;
  Result<bool> left_out(const transport::Key& key, double timeout_s) override;
  Result<std::optional<transport::Contributors>> counted(const transport::Key& key,
                                                         double timeout_s) override;
  bool counts_late() const override { return late_counts_; }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override;
  void cancel(const transport::Key& key) override { operations_.erase(key); }
  // Throws Error: members form no groups (method/commands.cpp).
  std::unique_ptr<Communicator> split(std::span<const int> members) override;
  void leave() override { follower_.end_waits(); }
  void abort(const std::string&) override { follower_.end_waits(); }
  transport::TrafficCount traffic() const override { return traffic_; }

 private:
  static constexpr int kMaxMembers = kNoMember + 1;

  struct Operation {
    uint64_t round = 0;  // of the ledger
    bool contributes = false;
    transport::Contributors from;
    const WireCodec* codec = nullptr;  // null: an all_gather
  };

  Operation& start(const transport::Key& key, const transport::Contributors& from);
  void offer(const transport::Key& key, const Operation& operation, Bytes payload);
  Result<thinwire::Commit> commit(const transport::Key& key);
  // The contributions that count, but for empty ones, in the commit's order, without their
  // payloads.
  std::vector<transport::Delivery> listed(const Commit& commit) const;
  // The same with their payloads.
  Result<std::vector<transport::Delivery>> fetch(const Commit& commit);

  Follower& follower_;
  const membership::RecipePlan& plan_;
  const int id_;
  const uint64_t first_round_;
  const bool late_counts_;
  const ReplayedRounds replayed_;
  std::map<transport::Key, Operation> operations_;
  // Operations of rounds from next_incomplete_ on: the ledger's round, and the fragment.
  std::set<std::pair<uint64_t, uint32_t>> started_;
  uint64_t next_incomplete_;  // every operation of an earlier round has an offer, perhaps empty
  const std::function<void()> contributes_;
  uint64_t computed_round_ = 0;
  membership::Spent spent_;  // in that round
  transport::TrafficCount traffic_;
  transport::CodedSum memory_;
};

// A worker's rounds from the ledger (train/round_source.h): who takes part, with which rows, and at
// which learning rate. Waits for rounds that are not open yet.
struct LedgerPace {
  int64_t steps = 0;        // of the run
  double row_seconds = 0;   // minimum time per row of this member in a step
  bool own_rows = false;    // rows are of this member's own text, and only counted by the ledger
  SpentOn spent_on = {};    // as MemberOptions (member.h)
  bool is_private = false;  // the run has noise, and offers do not say what was spent
};

// Everything referred to must outlive it. Its functions throw train::Aborted once the replica has
// to end (Follower).
std::unique_ptr<train::RoundSource> ledger_rounds(uint64_t run, Follower& follower,
                                                  CommittedCommunicator& communicator,
                                                  const membership::RecipePlan& plan,
                                                  const LedgerPace& pace);

}  // namespace thinwire::member
