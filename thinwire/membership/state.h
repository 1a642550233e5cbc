// The state of a run according to its ledger: a pure function of the records, the same for the
// coordinator, its standbys and every member. Nothing in it comes from a clock or a message.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

// Up to which record a participant has applied the ledger.
struct Position {
  uint64_t sequence = 0;
  Sha256 hash;  // of record `sequence`; zeros for 0
  bool operator==(const Position&) const = default;
};

struct Member {
  PublicKey key;
  Phase phase = Phase::kWaiting;
  uint64_t phase_since = 0;          // sequence of the record that began this phase
  std::optional<uint64_t> snapshot;  // the one it starts from while catching up
  float rows_per_second = 0;         // 0: not known
  uint64_t misconduct = 0;           // offences of that kind
  std::vector<uint64_t>
      refusals;  // the others that still count: the round that was next, ascending
  uint64_t offences() const { return misconduct + refusals.size(); }
  bool operator==(const Member&) const = default;
};

struct HeldSnapshot {
  Sha256 content;
  uint64_t bytes = 0;
  std::set<int> holders;  // members; the store holds it too
  bool operator==(const HeldSnapshot&) const = default;
};

// A contribution that was missing when its round was closed.
struct Overdue {
  int member = 0;
  uint64_t round = 0;
  uint32_t fragment = 0;
  auto operator<=>(const Overdue&) const = default;
};

struct OverdueTerms {
  OperationKey operation;
  uint64_t weight = 0;
  uint64_t max_bytes = 0;
  bool operator==(const OverdueTerms&) const = default;
};

// What the evaluations so far have decided.
struct Evaluated {
  uint64_t step = 0;                    // of the last one; 0: there was none
  uint64_t best_step = 0;               // of the lowest loss; 0: none yet
  double best_loss = 0;                 // nats per token
  uint64_t best_round = 0;              // the round that ends with best_step
  std::optional<uint64_t> best_digest;  // of the weights after it, once agreed on
  uint64_t since = 0;                   // evaluations with a loss since the lowest
  bool operator==(const Evaluated&) const = default;

  // Whether a loss is lower than all before.
  bool is_better(double loss) const { return best_step == 0 || loss < best_loss; }
};

// Not thread-safe. Equal states give equal answers.
struct State {
  Position position;
  std::optional<Founding> founding;
  std::vector<Member> members;                 // by id
  std::vector<int> by_key;                     // all ids, ascending by the member's key
  std::map<uint64_t, HeldSnapshot> snapshots;  // the newest two, by sequence
  std::deque<Opening> open;                    // rounds, oldest first
  uint64_t next_round = 0;                     // the first round never opened yet
  uint64_t next_step = 0;
  uint32_t epoch = 0;                           // of the round opened last
  uint64_t last_closing = 0;                    // sequence of its record; 0: none yet
  std::map<uint64_t, uint64_t> closed_bytes;    // payloads, by sequence, after the older snapshot
  std::map<Overdue, OverdueTerms> overdue;      // may count when their fragment is next exchanged
  std::map<uint64_t, uint64_t> agreed_digests;  // by round, of the last kDigestsKept
  Evaluated evaluated;
  bool finished = false;  // the last round is closed, or an evaluation has ended the run
  bool operator==(const State&) const = default;

  static constexpr size_t kDigestsKept = 16;
  // A payload that could not count is an offence for so many rounds. Norms of honest members are
  // outliers at times, and members with equal rows compute equal payloads.
  static constexpr uint64_t kRefusalRounds = 100;

  // Applies the next record, which has this hash. Returns kCorruptPayload and changes nothing if it
  // cannot follow: it has another place in the chain or an unknown writer, or contradicts what is
  // known: a contribution that is counted twice, is from outside the roster or has the wrong
  // weight; a round out of order; rows assigned to no member or to several. The caller has checked
  // signatures.
  Result<void> apply(const Record& record, const Sha256& hash);

  bool knows(int member) const {
    return member >= 0 && static_cast<size_t>(member) < members.size();
  }
  // Where `key` is in by_key, or would be.
  std::vector<int>::const_iterator place_of(const PublicKey& key) const;
  std::optional<int> find(const PublicKey& key) const;
  // Whether more than one member is present.
  bool has_several_present() const;
  // The opening of an open round; null if the round is not open.
  const Opening* opening(uint64_t round) const;
  // The terms of a contribution that is overdue; null if it is not.
  const OverdueTerms* overdue_terms(const Overdue& name) const {
    const auto found = overdue.find(name);
    return found == overdue.end() ? nullptr : &found->second;
  }
  // The oldest round of which a contribution may still count.
  uint64_t oldest_countable() const;
  // Records after this one can be replayed: the store still has their payloads.
  uint64_t replayable_from() const { return snapshots.empty() ? 0 : snapshots.begin()->first; }
};

// The number of a member's rows over all steps of a round, of one without steps those of a step; 0
// if it is not in the roster.
uint64_t weight_of(const Opening& opening, int member);

}  // namespace thinwire::membership
