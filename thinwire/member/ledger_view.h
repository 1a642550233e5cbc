// The ledger as read by a member: its state, and each round with the decisions about it, back to
// the oldest that can still be replayed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"

namespace thinwire::member {

struct LedgerRound {
  membership::Opening opening;  // the latest one, if the round was reopened
  std::optional<membership::Closing> closing;
  uint64_t opened_at = 0;  // the opening's record
  uint64_t closed_at = 0;  // the closing's record
};

// Not thread-safe.
class LedgerView {
 public:
  // Only the ledger of this run is read. `check`: of its records' signatures.
  explicit LedgerView(membership::Founding founding, membership::Verify check = verify)
      : founding_(std::move(founding)), verify_(check) {}

  enum class Taken : uint8_t {
    kApplied,
    kIgnored,  // known already, or not written by a coordinator of the run
    kForked,   // the stream's history differs from the one read; this view is now empty
  };
  // Takes the stream's next message.
  Taken take(const Bytes& bytes);

  // What the last fork was about: the coordinator signed another record of this number than the one
  // that was read. An honest one does so only if the store lost the first.
  struct Fork {
    uint64_t sequence = 0;
    PublicKey writer;
  };
  const Fork& fork() const { return fork_; }

  const membership::State& state() const { return state_; }
  // Null before it is opened, and some time after it can no longer be replayed.
  const LedgerRound* round(uint64_t number) const;
  // The oldest round that the last record reopened, if any.
  const std::optional<uint64_t>& reopened() const { return reopened_; }
  // Evaluations that have decided something, in the order of their steps.
  const std::vector<membership::Evaluation>& evaluations() const { return evaluations_; }
  // The place of a record that was read.
  membership::Position position(uint64_t sequence) const { return {sequence, hashes_[sequence]}; }
  // Whether this place is in the history that was read.
  bool has(const membership::Position& place) const {
    return place.sequence < hashes_.size() && hashes_[place.sequence] == place.hash;
  }
  // The records from `first` on that are still kept: one, and more as far as all of them have at
  // most `max_bytes`.
  std::vector<Bytes> records_from(uint64_t first, size_t max_bytes) const;
  // The last ones, by number, likewise.
  std::map<uint64_t, Bytes> last_records(size_t max_bytes) const;

 private:
  Taken reset(const Fork& fork);
  void note(const membership::Record& record);

  const membership::Founding founding_;
  const membership::Verify verify_;
  membership::State state_;
  std::vector<Sha256> hashes_ = std::vector<Sha256>(1);  // by sequence
  membership::RecordTail tail_;
  std::map<uint64_t, LedgerRound> rounds_;
  std::vector<membership::Evaluation> evaluations_;
  std::optional<uint64_t> reopened_;
  Fork fork_;
};

}  // namespace thinwire::member
