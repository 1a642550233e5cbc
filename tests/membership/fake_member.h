// A member without a model: its weights are a hash of what it applied, in order. It does what
// docs/hosts.md says a member does.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "network.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

struct Replica {
  Position position;
  Sha256 weights;
  std::optional<AgreedDigest> digest;  // after the last round it applied
  bool flipped = false;                // a fault has changed its weights
};

// What all members of a simulation share: their network, and the eyes of whoever checks them.
struct Stage {
  Network& network;
  const Options& options;
  uint64_t overlap = 0;
  std::function<void(Host& from, const Input&)> send;          // to all coordinators
  std::function<void(int member, const Replica&)> on_applied;  // a replica has gone one record on
  std::function<void(int member)> on_discarded;  // a replica of another history is given up
  std::map<Sha256, Replica> snapshots;           // contents, by hash
};

class FakeMember final : public Host {
 public:
  FakeMember(Stage& stage, int number, double seconds_per_row);

  // Its process begins; with `disk` with what it had.
  void start(bool disk);
  void stop();
  void leave();  // announces it, and stops
  void flip_a_bit();
  void on_connected(uint64_t last) override;
  void on_record(const Bytes& bytes) override;
  void on_ask_records(uint64_t first);
  void on_ask_snapshot();

  const PublicKey& key() const { return key_; }
  std::optional<int> id() const { return state_.find(key_); }
  const State& state() const { return state_; }
  const std::optional<Replica>& replica() const { return replica_; }
  const std::set<Sha256>& blobs() const { return blobs_; }

 private:
  void give_back();
  void proceed();
  void report();
  void keep_reporting(uint64_t process);
  void follow_own_phase();
  void apply_records();
  bool has_payloads(const Closing& closing);
  void apply_closing(const Closing& closing);
  void train();
  void compute(const Opening& opening);
  void finish(const OperationKey& key);
  void offer(const OperationKey& key);
  void discard_from(uint64_t fork);
  void fetch(const Sha256& blob, const std::function<void()>& fetched);

  Stage& stage_;
  const int number_;
  const PublicKey key_;
  const double seconds_per_row_;
  // On its disk.
  State state_;                 // the ledger as it knows it
  std::vector<Bytes> records_;  // ... and its records
  std::vector<Record> decoded_;
  std::vector<Sha256> hashes_;
  std::optional<Replica> replica_;
  std::set<Sha256> blobs_;
  uint64_t begun_with_ = 0;  // the record that assigned it a snapshot to begin with
  // Of its process.
  uint64_t process_ = 0;
  std::map<OperationKey, Sha256> computed_;   // its payloads
  std::map<OperationKey, double> computing_;  // seconds it takes
  double busy_until_ = 0;                     // it computes one round after the other
  size_t unfinished_ = 0;                     // operations
  std::set<Sha256> fetching_;
};

}  // namespace thinwire::membership
