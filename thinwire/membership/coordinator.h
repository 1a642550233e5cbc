// Decides who takes part in a run, which rounds are open, and which contributions count. A pure
// state machine: messages and the time go in, actions come out, and the same inputs give the same
// actions. It has no clock, no thread and no network; docs/hosts.md says what it does and why.
//
// A decision takes effect only when it is read back as a record of the ledger. So if a run has
// several coordinators, at most one of them prevails, no matter which, and any can be lost: a
// standby is a coordinator that waits for some time before it acts. A new coordinator needs only
// the ledger; members repeat whatever is not recorded yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/membership/decision.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/observed.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// A clock that counts only the time during which its machine was awake. A sleeping machine receives
// nothing, so that time must not count as others' silence. Not thread-safe.
class AwakeClock {
 public:
  // It is read at least every `longest_s` seconds while the machine is awake: between two readings,
  // time beyond that was slept.
  explicit AwakeClock(double longest_s) : longest_s_(longest_s) {}

  // `now`: seconds of a clock that never goes back, but may jump ahead. The first reading is `now`.
  double at(double now) {
    awake_ = read_at_ ? awake_ + std::min(now - *read_at_, longest_s_) : now;
    read_at_ = now;
    return awake_;
  }

 private:
  const double longest_s_;
  std::optional<double> read_at_;
  double awake_ = 0;
};

// Not thread-safe.
class Coordinator {
 public:
  // All references must outlive it. If the ledger is empty, `founding` goes into the first record;
  // it lists the signer's key. A standby acts once a decision has been due for takeover_s and no
  // other coordinator has recorded it. `remembered` is a record that the ledger has had before, and
  // has lasted: nothing is decided while the store lacks it. Members are asked to give back what
  // the store lost; if they have not within silence_s, the run halts. Throws UsageError for invalid
  // options.
  Coordinator(const RunPlan& plan, const Options& options, const Signer& signer, Verify verify,
              Founding founding, bool standby, Position remembered = {});

  // Takes what happened since the last tick, in order, and returns what to do. Call it whenever
  // something happens, and at least every retry_s. `now`: seconds of a clock that never goes back.
  // If it is called later than that, the machine was asleep, and the excess time is ignored: the
  // members were not silent, they could not be received. It looks at every member after a record
  // and when a silence may be too long; otherwise only at those that the inputs are from.
  std::vector<Action> tick(std::span<const Input> inputs, double now);

  const State& state() const { return state_; }
  // Whether the offer is for an operation that is open, or that may open with the next record, and
  // may count for it.
  bool is_expected(const Offer& offer) const {
    return is_early(offer) || why_refused(offer).empty();
  }
  // Whether a contribution of this member to an open round that has it in its roster may still
  // come: it is present and has the replica for it.
  bool may_contribute(int member) const {
    return state_.knows(member) && make_decision().may_contribute(member);
  }
  // Whether it acts at once: it wrote the newest record, or no other coordinator has overtaken it
  // yet.
  bool leads() const { return leads_; }

  // What keeps it from deciding, in words; empty: nothing.
  std::string waits_for() const;

  // The state after all records of a ledger, from the first on. kCorruptPayload names the record
  // that does not decode, is not signed by a coordinator of the run, or cannot follow.
  static Result<State> replay(std::span<const Bytes> records, Verify verify);

 private:
  struct Pending {
    Append append;
    Sha256 hash;
    double sent = 0;
    bool own = false;  // false: a record that a member supplied
  };
  struct Claim {
    Position position;      // the member claims to have applied this record, which is missing here
    double since = 0;       // of the newest record, or since it was first requested
    double asked = 0;       // when it was last requested from the member; 0: not yet
    RecordJoiner supplied;  // parts of it, once requested
    uint64_t shown = 0;     // the newest record that it has supplied; 0: none
    PublicKey stranger;     // whose claim it is, of one that the ledger does not know
  };
  // A record that a coordinator of the run has signed.
  struct Supplied {
    Bytes bytes;
    int member = 0;
  };
  // How many of some members have reported their position since the store was connected.
  struct Reported {
    size_t members = 0;
    size_t reports = 0;
    bool are_all() const { return reports == members; }
    bool are_half() const { return 2 * reports >= members; }
  };
  struct SnapshotAsked {
    int member = 0;
    uint64_t round = 0;  // the next one at that time
    double at = 0;
  };

  void receive(const JoinRequest& join);
  void receive(const Report& report);
  void receive(const Offer& offer);
  void receive(const Loss& loss);
  void receive(const LeaveNotice& notice);
  void receive(const SnapshotReady& ready);
  void receive(const Supply& supply);
  void receive(const Misconduct& misconduct);
  void receive(const Dismissed& dismissed);
  void receive(const Acknowledged& acknowledged);
  void receive(const PayloadRefused& refused);
  void receive(const StoreConnected& connected);
  void receive(const Departed& departed);
  void receive(const StoreDisconnected&);
  void receive(const Lacks& lacks);
  void receive(const RecordRead& read);

  void hear();
  Seen* seen(int member);
  void take_position(int member, const std::optional<Position>& position);
  bool is_missing(const std::optional<Position>& position) const {
    return position && position->sequence >= hashes_.size();
  }
  void claim(int member, const Position& position);
  void take_stranger(const JoinRequest& join);
  void take_offer(const Offer& offer);
  void take_early_offers();
  bool is_early(const Offer& offer) const;
  bool was_counted(const Offer& offer) const;
  std::string why_refused(const Offer& offer) const;
  void apply(const Record& record, const Bytes& bytes, const Sha256& hash);
  void settle_claims();
  void forget_what_is_recorded(const Record& record);
  void measure_pace(const Closing& closing);
  void reset();

  void proceed();
  bool settled();
  bool lacks_remembered() const {
    return remembered_.sequence >= hashes_.size() ||
           hashes_[remembered_.sequence] != remembered_.hash;
  }
  void await_remembered();
  bool append_supplied();
  void report_return();
  void discard_unproven_claims();
  void refuse_claim(int member);
  PublicKey author_of(int member) const;
  void ask_for_lost_records();
  bool has_heard_enough() const;
  Reported reports_of(bool (*counts)(Phase)) const;
  void decide();
  bool may_decide();
  bool has_nothing_to_decide() const;
  Decision make_decision() const { return {plan_, options_, room_, state_, observed_, now_}; }
  void append(Bytes record, bool own);
  void ask_for_snapshot();
  bool awaits_snapshot(const SnapshotAsked& asked) const;
  // The rounds behind the newest snapshot from which on another one is due.
  uint64_t snapshot_due() const;

  const RunPlan& plan_;
  const Options options_;
  const uint64_t room_;
  const Signer& signer_;
  const Verify verify_;
  const Founding founding_;

  State state_;
  std::vector<Sha256> hashes_;  // by sequence, 0 included
  RecordTail tail_;
  Observed observed_;
  Agenda agenda_;
  Position remembered_;
  std::map<int, Claim> claims_;            // by member, or AskRecords::kStrangers
  std::map<uint64_t, Supplied> supplied_;  // records that follow, by sequence
  uint64_t supplied_bytes_ = 0;
  std::optional<uint64_t> missing_from_;  // the first record that the store seems to have lost
  std::optional<double> missing_since_;   // that remembered_ is waited for, without any progress
  bool has_gone_on_ = false;              // beyond what the ledger had when it started
  bool took_back_ = false;                // records that the store had lost
  // Members that did not supply what they claimed to have. Their further claims do not count until
  // the store is reconnected, because it loses nothing before that.
  std::set<int> distrusted_;
  std::deque<Closing> closings_;  // the last ones that were read since it started
  std::optional<double> connected_;
  bool heard_enough_ = false;     // since then; until the next record
  bool store_was_away_ = false;   // after this coordinator had reached it
  bool store_was_empty_ = false;  // when it was connected, and nothing was known of the run before
  uint64_t store_last_ = 0;
  uint64_t connected_last_ = 0;  // the store's last record when it was connected
  bool leads_;
  std::optional<Pending> pending_;
  std::optional<double> due_since_;  // since when something due has gone unrecorded
  double closed_at_ = 0;
  double paced_at_ = 0;    // when the last round was closed that no round without steps follows
  double pace_bytes_ = 0;  // since then
  double asked_at_ = 0;    // when records were last requested
  std::optional<SnapshotAsked> snapshot_asked_;
  AwakeClock clock_{options_.retry_s()};
  double now_ = 0;
  std::vector<Action> actions_;
};

}  // namespace thinwire::membership
