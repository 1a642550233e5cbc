// Decides who takes part in a run, which rounds are open, and which contributions count. A pure
// state machine: messages and the time go in, actions come out, and the same inputs give the same
// actions. It has no clock, no thread and no network; docs/hosts.md says what it does and why.
//
// A decision takes effect only when it is read back as a record of the ledger. So if a run has
// several coordinators, at most one of them prevails, no matter which, and any can be lost: a
// standby is a coordinator that waits for some time before it acts. A new coordinator needs only
// the ledger; members repeat whatever is not recorded yet.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "thinwire/base/signature.h"
#include "thinwire/membership/agenda.h"
#include "thinwire/membership/awake_clock.h"
#include "thinwire/membership/decision.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/messages.h"
#include "thinwire/membership/observed.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record_parts.h"
#include "thinwire/membership/record_tail.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/membership/state.h"

namespace thinwire::membership {

// Not thread-safe.
class Coordinator {
 public:
  // All references must outlive it. If the ledger is empty, `founding` goes into the first record;
  // it lists the signer's key. A standby acts once a decision has been due for takeover_s and no
  // other coordinator has recorded it. Throws UsageError for invalid options.
  Coordinator(const RunPlan& plan, const Options& options, const Signer& signer, Verify verify,
              Founding founding, bool standby);

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
  // Whether it acts at once: it wrote the newest record, or no other coordinator has overtaken it
  // yet.
  bool leads() const { return leads_; }

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
  };

  void receive(const JoinRequest& join);
  void receive(const Report& report);
  void receive(const Offer& offer);
  void receive(const LeaveNotice& notice);
  void receive(const SnapshotReady& ready);
  void receive(const Supply& supply);
  void receive(const Misconduct& misconduct);
  void receive(const Acknowledged& acknowledged);
  void receive(const PayloadRefused& refused);
  void receive(const StoreConnected& connected);
  void receive(const Departed& departed);
  void receive(const StoreDisconnected&);
  void receive(const RecordRead& read);

  Seen* seen(int member);
  void take_position(int member, const std::optional<Position>& position);
  void take_offer(const Offer& offer);
  void take_early_offers();
  bool is_early(const Offer& offer) const;
  bool was_counted(const Offer& offer) const;
  std::string why_refused(const Offer& offer) const;
  void apply(const Record& record, const Bytes& bytes, const Sha256& hash);
  void settle_claims();
  void forget_what_is_recorded(const Record& record);
  void reset();

  void proceed();
  bool settled();
  void discard_unproven_claims();
  void ask_for_lost_records();
  bool has_heard_enough();
  void decide();
  bool may_decide();
  bool has_nothing_to_decide() const;
  Decision make_decision() const { return {plan_, options_, room_, state_, observed_, now_}; }
  void append(Bytes record, bool own);
  void ask_for_snapshot();

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
  std::map<int, Claim> claims_;
  // Members that did not supply what they claimed to have. Their further claims do not count until
  // the store is reconnected, because it loses nothing before that.
  std::set<int> distrusted_;
  std::optional<Closing> last_closing_;  // that was read since it started
  std::optional<double> connected_;
  bool heard_enough_ = false;     // since then; until the next record
  bool store_was_empty_ = false;  // when it was connected, and nothing was known of the run before
  uint64_t store_last_ = 0;
  bool leads_;
  std::optional<Pending> pending_;
  std::optional<double> due_since_;  // since when something due has gone unrecorded
  double closed_at_ = 0;
  double asked_at_ = 0;  // when records were last requested
  double snapshot_asked_ = 0;
  AwakeClock clock_{options_.retry_s()};
  double now_ = 0;
  std::vector<Action> actions_;
};

}  // namespace thinwire::membership
