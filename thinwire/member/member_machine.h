// What a member knows and decides, without threads, clock or network: the counterpart of the
// coordinator (membership/coordinator.h). It hears what was read, received, stored and computed,
// and says what is to be done. Follower (follower.h) carries that out for a member of a run;
// simulations do so in virtual time. docs/hosts.md.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/signature.h"
#include "thinwire/config/sections.h"
#include "thinwire/member/kept_payloads.h"
#include "thinwire/member/ledger_view.h"
#include "thinwire/member/place.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/run_plan.h"
#include "thinwire/sync/committed_sum.h"
#include "thinwire/transport/courier/blob.h"

namespace thinwire::member {

struct MachineSettings {
  membership::Founding founding;
  double timeout_s = 600;  // sync.timeout_s, from which all times derive
  double down_bytes_s = 0;
  uint64_t own_rows = 0;                 // as of a JoinRequest
  std::optional<Place> checkpoint = {};  // of this member's newest checkpoint
  config::LateContributions late = config::LateContributions::kDrop;  // sync.late
  std::optional<sync::SumRule> sums = {};  // that the coordinator forms (sync::sum_rule)
  std::string watch = {};                  // the validation set whose losses decide; empty: none do
  // It follows the run without being a member, from the newest snapshot on, and says nothing but
  // what it audits (docs/audits.md).
  bool audits = false;
  // The ledger's last records at that checkpoint, by number. If the ledger ends before, the
  // coordinator may ask for them.
  std::map<uint64_t, Bytes> records = {};
  membership::Verify verify = thinwire::verify;  // of the signatures of records
};

// What a replica starts from: this member's checkpoint, or a snapshot.
struct StartState {
  uint64_t sequence = 0;  // the last record that it includes
  bool checkpoint = false;
  transport::BlobId content;  // of the snapshot
  std::vector<std::string> holders;
};

// Rounds [first, end) that a replica only follows, although its member may be in their rosters:
// they were closed when it began, so that nothing it could offer would count.
struct ReplayedRounds {
  uint64_t first = 0;
  uint64_t end = 0;
  bool has(uint64_t round) const { return round >= first && round < end; }
};

// The names of those who have a blob.
using Holders = std::map<transport::BlobId, std::vector<std::string>>;
using OfferName = std::pair<uint64_t, uint32_t>;  // round and fragment

// --- what is to be done, in the order given

// Sign it and send it to its topic.
struct Say {
  membership::Message message;
};
// Store it, and tell the outcome by stored().
struct StoreOffer {
  OfferName name;
  std::shared_ptr<const Bytes> blob;
};
// Store it; the outcome matters to nobody.
struct StoreAgain {
  std::shared_ptr<const Bytes> blob;
};
// Fetch these now, because the replica is going to wait for them, unless wants() has become false.
struct FetchEarly {
  Holders holders;
};
// Nobody waits for this blob any more.
struct Forget {
  transport::BlobId id;
};
// Call begin_reading(), and read the ledger from its first record on.
struct ReadAgain {};
// Ask how long the ledger's stream is, and tell it by stream_ends().
struct AskEnd {};
// Tell the user.
struct Tell {
  std::string text;
};

using MemberAction =
    std::variant<Say, StoreOffer, StoreAgain, FetchEarly, Forget, ReadAgain, AskEnd, Tell>;

// Not thread-safe. `now`: seconds of a clock that never goes back. Every function may add actions.
class MemberMachine {
 public:
  // `self`: this member's key, or an auditor's. `plan` must outlive it.
  MemberMachine(const PublicKey& self, const membership::StepPlan& plan, MachineSettings settings);

  // What is to be done since the last call.
  std::vector<MemberAction> take_actions() { return std::exchange(actions_, {}); }

  // --- the ledger

  // Its stream is read from the first record on, from now on.
  void begin_reading();
  // The stream's length; nothing if it could not be asked for.
  void stream_ends(std::optional<uint64_t> last);
  // The message at this place of the stream.
  void read(uint64_t place, Bytes message, double now);

  // --- what others say

  // A statement of a coordinator of the run, whose signature is right, as these bytes. `unix_now`:
  // seconds since 1970.
  void receive(const membership::Statement& statement, std::span<const uint8_t> bytes, double now,
               double unix_now);
  // An offer of another member, which is only displayed.
  void note_offer(const membership::Offer& offer);
  // Whether this member may still store the payload again for the author of a request.
  bool can_restore(const PublicKey& author, const Sha256& payload) const;
  // Stores a payload again that the store has lost, at most once per settle_s, however often it is
  // requested.
  void restore(const Sha256& payload, double now);
  // The network does not let this member in.
  void deny(std::string why);

  // --- reports

  // Says what the coordinator should know and may not have received, and stores what the store did
  // not accept. To be called once acts_now(), and idle_s() after the last time. `lacking`: payloads
  // that nobody has.
  void tick(double now, const std::vector<transport::BlobId>& lacking);
  bool acts_now() const { return acts_now_; }
  void act_soon() { acts_now_ = true; }
  double idle_s(double now) const;
  // The last messages of a member that leaves; none if it is no member.
  std::vector<membership::Message> farewell();

  // --- the replica's life

  // What to start from, once the whole ledger has been read and that is known: the checkpoint,
  // once, if the ledger continues from it and replaying takes fewer bytes than a snapshot.
  std::optional<StartState> start_state();
  // The functions of Follower with these names.
  bool is_obsolete(const StartState& start) const;
  bool skip(const StartState& start);
  bool begin(const StartState& start, int64_t completed);
  ReplayedRounds replayed() const { return replayed_; }
  void end();
  const std::optional<std::string>& starts_over() const { return starts_over_; }
  const std::optional<std::string>& refused() const { return refused_; }

  // --- the worker

  std::optional<int> own_id() const { return view_.state().find(self_); }
  // This member as the ledger has it; null if it does not.
  const membership::Member* own() const;
  bool trains() const;
  // The round is handed to the worker, once it is open; null before.
  const membership::Opening* hand_out(uint64_t round);
  // Null while the round is not closed.
  const membership::Closing* closing(uint64_t round) const;
  // The worker waits for this round to close; nothing: no longer.
  void await(std::optional<uint64_t> round);
  // Who has the payloads of a commit.
  Holders holders_of(const Commit& commit) const;
  // Whether this blob was to be fetched early and has not been taken since.
  bool wants(const transport::BlobId& id) const { return early_.contains(id); }
  // The worker has taken it, or does not need it any more.
  void taken(const transport::BlobId& id);
  // Offers it until its round is closed, or, if late contributions count, until it may no longer.
  // `spent`: in the round. False: it cannot count any more.
  bool offer(uint64_t round, uint32_t fragment, const transport::BlobId& id,
             std::shared_ptr<const Bytes> payload, const membership::Spent& spent);
  // The store has answered; `refused`: why it does not have the offer, or nothing.
  void stored(OfferName name, std::optional<FailureKind> refused, double now);
  void completed(int64_t steps);
  void trained(int64_t steps, double loss_sum, int64_t tokens);
  void evaluated(int64_t steps, const std::string& set, double loss_sum, int64_t tokens);
  void digest(int64_t steps, uint64_t digest);
  std::optional<Place> place(int64_t steps) const;
  std::map<uint64_t, Bytes> last_records() const;

  // --- sums that the coordinator forms

  // A sum that a coordinator says it has stored; without a payload one that this member forms
  // itself, which need not be fetched any more.
  struct SumSaid {
    membership::Sum sum;
    std::string holder;
    transport::BlobId id() const { return {sum.payload, sum.bytes}; }
  };
  bool forms_sum(const Commit& commit) const {
    return settings_.sums && settings_.sums->applies(commit);
  }
  // Whether what is said may be a sum of these contributions; only if one is formed of them. A
  // member that forms it itself has said so without bytes.
  bool fits_sum(const membership::Sum& sum, const std::vector<Contribution>& listed) const {
    return sum.bytes > 0 && sum.format == settings_.sums->format() &&
           settings_.sums->fits(sum.bytes, listed);
  }
  // The sum of these contributions (sync::digest_of); null: nobody has said anything of it.
  const SumSaid* sum_said(const Sha256& contributions) const;
  // Until when it is waited for.
  double sum_is_due(uint64_t round) const;
  // The worker forms the sum itself.
  void form_sum(const Sha256& contributions);

  // --- snapshots

  bool wants_snapshot(int64_t steps) const;
  // What to announce of a snapshot with this content once it is stored; nothing if it is of no use.
  std::optional<membership::SnapshotReady> snapshot_ready(int64_t steps,
                                                          const transport::BlobId& content);
  void snapshot_stored(const membership::SnapshotReady& ready);
  void decline_snapshot() { snapshot_asked_ = false; }

  // --- for display

  const LedgerView& view() const { return view_; }
  int64_t steps() const { return completed_; }
  // What keeps the coordinator, as it last said; empty: nothing unusual.
  const std::string& coordinator_waits_for() const { return coordinator_waits_; }
  // Whether one that says what it waits for has said nothing for too long.
  bool coordinator_is_silent(double now) const {
    return coordinator_heard_ && now - *coordinator_heard_ >= times_.absent_s();
  }
  // The members of a round that is open whose offers were not heard of.
  std::vector<int> missing(uint64_t round) const;
  const membership::Options& times() const { return times_; }
  double retry_s() const { return retry_s_; }  // after the store or a holder refused

 private:
  struct Offered {
    membership::Offer offer;
    std::shared_ptr<const Bytes> blob;
    bool stored = false;
    bool storing = false;
    double store_at = 0;  // the earliest time for it
  };

  template <typename A>
  void act(A action) {
    actions_.emplace_back(std::move(action));
  }
  void say(membership::Message message) { act(Say{std::move(message)}); }

  // --- starting (machine_starting.cpp)
  // Whether everything has been read that the ledger's stream had when it was opened.
  bool has_read_all() const { return end_ && read_ >= *end_; }
  bool takes_checkpoint() const;
  // Whether the ledger ends before the checkpoint, as far as can be seen in the same history: the
  // coordinator's store is an older copy, or has lost records that this member has.
  bool awaits_records() const;
  void give_up_checkpoint();
  bool can_start() const;
  // The snapshot that a replica may start from at present.
  std::optional<uint64_t> start_snapshot() const;
  ReplayedRounds rounds_to_replay(uint64_t completed) const;

  // --- the ledger (member_machine.cpp)
  void follow_own_phase();
  void follow_as_auditor();
  std::string why_excluded(const membership::Member& member) const;
  void start_over_if_reopened();
  // Whether what this member offers for an operation may still count, as far as it has read.
  bool may_count(uint64_t round, uint32_t fragment) const;
  void drop_spent_offers();
  void drop_kept_payloads();
  // Whether it trains and the worker has begun this round.
  bool has_begun(uint64_t round) const;
  // The payloads that the worker needs of the round that `record` has closed, if it has begun that.
  Holders closed_by(const membership::Record& record) const;
  void fetch_early(Holders holders);
  bool caught_up() const;
  std::optional<membership::Position> position();

  // --- messages (machine_messages.cpp)
  // What it repeats until the ledger shows that it was received.
  void say_again(const std::vector<transport::BlobId>& lacking);
  void store_again(double now);
  bool is_new(const membership::Statement& statement, std::span<const uint8_t> bytes, double now,
              double unix_now);
  void note_coordinator(const membership::Message& message, double now);
  void take_sum(const membership::Sum& sum, const PublicKey& author);
  void note_sum(const membership::Sum& sum, std::string holder);
  // Whether the coordinator has said that it does not form the sum.
  bool is_left_to_members(const Commit& commit) const;
  void take_refusal(const membership::Refuse& refuse);
  // Records that were read, or that the checkpoint has; at least the first.
  std::vector<Bytes> records_from(uint64_t first) const;

  const PublicKey self_;
  const membership::StepPlan& plan_;
  const MachineSettings settings_;
  const membership::Options times_;
  const double retry_s_;
  std::vector<MemberAction> actions_;

  LedgerView view_;
  uint64_t read_ = 0;  // the last place read in the stream
  membership::RecordJoiner joiner_;
  std::optional<uint64_t> end_;  // of the stream, when it was opened; none: not known yet
  bool asks_for_end_ = false;    // again
  bool reads_again_ = false;
  bool acts_now_ = true;

  std::optional<std::string> starts_over_;
  std::optional<std::string> refused_;  // it may not take part
  std::string last_refusal_;            // of something that it asked or offered as a member
  std::optional<Place> checkpoint_;     // from which it may start
  bool told_of_lost_records_ = false;
  bool has_replica_ = false;
  bool behind_ = false;              // it continues from a checkpoint and has not caught up yet
  membership::Position replica_;     // the position it is known to have reached
  uint64_t started_by_ = 0;          // the record that assigned what it started from
  std::optional<uint64_t> skipped_;  // this snapshot and earlier ones cannot be fetched
  int64_t completed_ = 0;            // steps
  std::optional<uint64_t> awaited_;  // the round whose commit the worker waits for
  ReplayedRounds replayed_;
  uint64_t handed_out_ = 0;  // the round after the last one given to the worker
  std::optional<membership::AgreedDigest> digest_;  // after the last round that ended
  int64_t digest_steps_ = -1;
  std::map<uint64_t, uint64_t> digests_;  // of an auditor, by round: the last State::kDigestsKept
  double loss_sum_ = 0;                   // of training in this round
  int64_t loss_tokens_ = 0;
  std::optional<membership::Loss> undecided_;  // by which the next evaluation decides
  bool snapshot_asked_ = false;
  std::optional<membership::SnapshotReady> snapshot_;  // stored, but not in the ledger yet

  std::map<OfferName, Offered> offers_;
  std::set<transport::BlobId> early_;  // payloads and sums fetched before the worker waits for them
  std::map<uint64_t, double> closed_at_;  // when the last rounds were
  std::deque<SumSaid> sums_said_;         // the last ones
  KeptPayloads kept_;
  std::map<Sha256, double> restored_at_;                    // recently, by payload
  std::map<uint64_t, std::map<int, int>> offers_received_;  // by round and member, for display

  membership::ReplayWindow received_;
  std::map<bool, double> told_overtaken_;    // when, by whether the coordinator's clock was ahead
  std::optional<double> coordinator_heard_;  // when; nothing from one that says what it waits for
  std::string coordinator_waits_;            // as it last said
};

}  // namespace thinwire::member
