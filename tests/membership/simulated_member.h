// A member of a simulated run: the machine that real members have (member/member_machine.h), and a
// worker without a model, whose weights are a hash of what it applied, in order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "network.h"
#include "thinwire/member/member_machine.h"

namespace thinwire::membership {

struct Replica {
  uint64_t rounds = 0;     // completed
  uint64_t applied = 0;    // rounds whose commits are in its weights
  Position position = {};  // the record that closed the last of them
  Sha256 weights = {};
  bool flipped = false;  // a fault has changed its weights
};

// What all members of a simulation share: their network, and the eyes of whoever checks them.
struct Stage {
  Network& network;
  const StepPlan* plan = nullptr;
  Founding founding = {};
  double timeout_s = 0;
  bool late_counts = false;
  std::string watch = {};  // as Options::watch
  std::function<void(Host& from, const PublicKey& author, const Message&)> say =
      {};  // to everybody
  std::function<void(int member, const Replica&)> on_applied =
      {};                                             // a replica has gone one round on
  std::function<void(int member)> on_discarded = {};  // a replica of another history is given up
  std::function<void(int member, const std::string&)> on_told = {};  // its user
  std::map<Sha256, Replica> snapshots = {};                          // contents, by hash
};

class SimulatedMember final : public Host {
 public:
  SimulatedMember(Stage& stage, int number, double seconds_per_row);

  // Its process begins; with `disk` with what it had.
  void start(bool disk);
  void stop();
  void leave();  // announces it, and stops
  void flip_a_bit();
  void on_connected(uint64_t last) override;
  void on_record(const Bytes& bytes) override;
  // What somebody else says. The signature is right.
  void hear(const Statement& statement);

  const PublicKey& key() const { return key_; }
  std::optional<int> id() const { return machine_ ? machine_->own_id() : std::nullopt; }
  const member::MemberMachine& machine() const { return *machine_; }
  const std::optional<Replica>& replica() const { return replica_; }
  bool has_finished() const {
    return replica_ && is_decided() && (replica_->rounds == stage_.plan->rounds() || is_ended());
  }

 private:
  // What it goes on from once its process ended.
  struct Checkpoint {
    Replica replica;
    member::Place place;
    std::map<uint64_t, Bytes> records;
    std::map<member::OfferName, std::shared_ptr<const Bytes>> in_flight;
  };

  // Whether what the evaluation after its last round decides is recorded, and ended the run.
  bool is_decided() const;
  bool is_ended() const;
  // Whether the next round has no steps, so that the replica is in the middle of one.
  bool is_within_step() const;
  // Reports its loss, once. False: the others' are awaited.
  bool evaluate();
  // The training steps of so many rounds.
  int64_t steps_of(uint64_t rounds) const;
  void settle();
  void carry_out(const member::MemberAction& action);
  void store(const member::StoreOffer& offer);
  void tick_after(double seconds);
  void give_back();
  void fetch(const Sha256& blob, const std::function<void()>& fetched);

  void proceed();
  void give_up();
  void drop_replica();
  void find_start();
  void begin(const member::StartState& start, const Replica& replica);
  void work();
  bool compute();
  void offer(uint64_t round, const Opening& opening, double seconds);
  void offer_nothing(uint64_t round);
  bool apply_until(uint64_t rounds);
  bool has_payloads(const Closing& closing);
  void apply(const Closing& closing);
  void complete_round();
  void save();
  void make_snapshot();

  Stage& stage_;
  const int number_;
  const PublicKey key_;
  const double seconds_per_row_;
  // On its disk.
  std::optional<Checkpoint> checkpoint_;
  std::set<Sha256> blobs_;
  // The state of its process.
  std::unique_ptr<member::MemberMachine> machine_;
  uint64_t process_ = 0;
  uint64_t tick_ = 0;
  bool ticks_now_ = false;
  bool leaving_ = false;  // it says nothing more
  std::optional<Replica> replica_;
  uint64_t replicas_ = 0;  // so far; what an earlier one was computing is dropped
  std::optional<member::StartState> starting_;  // is being fetched
  bool computing_ = false;
  bool computed_ = false;  // the round that is not completed
  std::optional<uint64_t> awaited_;
  uint64_t evaluated_ = 0;  // steps after which this replica has reported its loss
  std::map<member::OfferName, std::shared_ptr<const Bytes>> in_flight_;
  std::set<uint64_t> offered_;  // rounds for which this replica has offered something
  std::set<Sha256> fetching_;
};

}  // namespace thinwire::membership
