// A communicator whose operations are decided by the ledger: contributions are blobs, announced by
// offers; an operation is over when a round's closing lists what counts; and everybody fetches
// exactly that. A member that follows past rounds gets the same answers from the ledger as those
// who were there.
//
// Sums. Every member fetches all contributions and forms the whole sum itself, in fp32 and in the
// order of the commit, with the arithmetic of transport/coded_sum.h; so the bits are those of the
// other transports. A member receives members - 1 times the coded buffer, where owners of chunks
// would receive 2 (members - 1) / members times.
//
// A member that is in a round's roster but does not contribute to one of its operations offers an
// empty payload, which the commit lists and nobody reads: the coordinator then knows that it need
// not wait.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "thinwire/member/follower.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/transport/coded_sum.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::member {

class CommittedCommunicator final : public transport::Communicator {
 public:
  // `id`: this member's. Both references must outlive it. Time-outs are not used: it waits for the
  // ledger as long as the member lives.
  CommittedCommunicator(Follower& follower, const membership::RecipePlan& plan, int id)
      : follower_(follower), plan_(plan), id_(id) {}

  // This member spent so long computing a step of a round of the ledger.
  void computed(uint64_t round, double seconds);

  int rank() const override { return id_; }
  int size() const override { return kMostMembers; }
  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override;
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override;
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override;
  Result<bool> left_out(const transport::Key& key, double timeout_s) override;
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override;
  void cancel(const transport::Key& key) override { operations_.erase(key); }
  // Throws Error: groups of members cannot be formed yet.
  std::unique_ptr<Communicator> split(std::span<const int> members) override;
  void leave() override { follower_.end_waits(); }
  void abort(const std::string&) override { follower_.end_waits(); }
  transport::TrafficCount traffic() const override { return traffic_; }

 private:
  static constexpr int kMostMembers = 1 << 20;

  struct Operation {
    uint64_t round = 0;  // of the ledger
    bool contributes = false;
    const WireCodec* codec = nullptr;  // null: an all_gather
  };

  Operation& start(const transport::Key& key, const transport::Contributors& from);
  void offer(const transport::Key& key, const Operation& operation, Bytes payload);
  Result<thinwire::Commit> commit(const transport::Key& key);
  // The payloads that count, by member; empty ones are left out.
  Result<std::vector<transport::Delivery>> committed(const transport::Key& key);

  Follower& follower_;
  const membership::RecipePlan& plan_;
  const int id_;
  std::map<transport::Key, Operation> operations_;
  uint64_t computed_round_ = 0;
  double computed_s_ = 0;
  transport::TrafficCount traffic_;
  transport::CodedSum memory_;
};

}  // namespace thinwire::member
