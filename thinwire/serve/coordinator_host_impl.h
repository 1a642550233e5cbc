// What a coordinator's host consists of (coordinator_host.h). coordinator_host.cpp ticks and
// carries out decisions, received_statements.cpp takes what members and others say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "thinwire/base/mutex.h"
#include "thinwire/base/nkey.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/membership/options.h"
#include "thinwire/membership/record.h"
#include "thinwire/membership/state.h"
#include "thinwire/serve/audit_board.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/ledger_reading.h"
#include "thinwire/serve/payload_filter.h"
#include "thinwire/serve/store_cleaner.h"
#include "thinwire/serve/stray_cleaner.h"
#include "thinwire/serve/sum_maker.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::serve {

// The members' latest reports, which are not in the ledger: for display, and to tell when a
// finished run is over.
//
// Not thread-safe. Times are seconds during which the coordinator's host was awake.
class LatestReports {
 public:
  // Silence counts from now on; further calls change nothing.
  void begin(double now);
  // Record `sequence`, which closes a round, was applied; again, if the ledger is read anew.
  void closed(uint64_t sequence);
  // From the owner of join.key, who need not be a member yet.
  void receive(const membership::JoinRequest& join);
  // `message` is from this member, whose key is `key`.
  void receive(int member, const PublicKey& key, const membership::Message& message, double now);
  // The server says that a connection of this member ended.
  void disconnected(int member);
  // The contribution has arrived and counts.
  void arrived(const membership::Offer& offer);
  // The owner of this key has reported the result of the finished run.
  void finished(const PublicKey& key);
  // The contribution does not count; `why` is shown to users.
  void refused(const membership::Offer& offer, const std::string& why);

  // How many of the member's last contributions were audited, and their mean effect.
  void audited(int member, size_t audits, double effect);

  // The rate of the link of a key's owner, as measured; 0: not known.
  double down_bytes_s(const PublicKey& key) const {
    const auto known = down_bytes_s_.find(key);
    return known == down_bytes_s_.end() ? 0 : known->second;
  }

  // By id.
  std::map<int, LatestReport> all(double now) const;
  // As the functions of CoordinatorHost with these names.
  std::vector<int> unfinished(const membership::State& state, double now,
                              const membership::Options& times) const;
  std::optional<uint64_t> final_digest(const membership::State& state) const;

 private:
  struct Received {
    LatestReport latest;       // without silent_s
    std::optional<double> at;  // of its last message
  };
  double heard_at(const Received& received) const {
    return received.at.value_or(began_.value_or(0));
  }

  std::map<int, Received> received_;  // by member
  std::optional<double> began_;
  std::vector<uint64_t> closings_;  // records that closed a round, ascending
  std::map<PublicKey, double> down_bytes_s_;
  std::set<PublicKey> finished_;
};

// Copies of members' payloads under the coordinator's own name, for when their holders cannot be
// reached (HostOptions::keeps).

// Belongs to the thread that ticks the host.
class PayloadCopies {
 public:
  // All must outlive it; the courier's answers go to `inbox`, perhaps after this object is
  // destroyed. The cleaner drops the copies.
  PayloadCopies(transport::Courier& courier, std::shared_ptr<Inbox> inbox, StoreCleaner& cleaner)
      : courier_(courier), inbox_(std::move(inbox)), cleaner_(cleaner) {}

  // Asks what is stored under the courier's name besides copies: somebody's payload may be one of
  // these blobs. Before the answer no copy is dropped.
  void begin();
  void take(const OwnBlobs& own);

  void keep(const UnkeptPayload& payload);
  // One that could not be stored. It is tried again as long as its round counts.
  void take(const UnkeptPayload& payload, const membership::State& state);

 private:
  transport::Courier& courier_;
  const std::shared_ptr<Inbox> inbox_;
  StoreCleaner& cleaner_;
};

// Reports the records of a ledger as they are applied, and which of them precede this coordinator's
// first decision.

// Not thread-safe.
class RecordNotifier {
 public:
  using Hook = std::function<void(const membership::Record& record, bool earlier)>;

  explicit RecordNotifier(Hook hook) : hook_(std::move(hook)) {}

  void read(const membership::Record& record) { unapplied_.push_back(record); }
  // This coordinator appends a record after `last`. All records up to the first such `last` count
  // as earlier.
  void decides(uint64_t last) {
    if (!decided_after_) decided_after_ = last;
  }
  // The ledger's records after `before` and up to `applied` were applied.
  void notify(uint64_t before, uint64_t applied) {
    for (const membership::Record& record : unapplied_) {
      if (record.sequence <= before || record.sequence > applied) continue;
      hook_(record, !decided_after_ || record.sequence <= *decided_after_);
    }
    std::erase_if(unapplied_, [&](const auto& record) { return record.sequence <= applied; });
  }

 private:
  const Hook hook_;
  std::vector<membership::Record> unapplied_;
  std::optional<uint64_t> decided_after_;  // the newest record when it first decided something
};

using membership::Input;
using membership::Message;
using membership::Offer;

// Which member's payload it is, and for which operation.
using OfferName = std::tuple<Sha256, int, uint64_t, uint32_t, uint32_t>;
inline OfferName name_of(const Offer& offer) {
  return {offer.payload, offer.member, offer.round, offer.epoch, offer.fragment};
}

class CoordinatorHost::Impl {
 public:
  Impl(transport::Courier& courier, const Signer& signer, const membership::RunPlan& plan,
       const HostOptions& options);

  void tick(double now);
  void protect(const Sha256& blob) const {
    inbox_->add(OwnBlobs{std::vector{transport::StoredBlob{blob}}});
  }
  void wait() { inbox_->wait(std::clamp(options_.membership.timeout_s / 400, 0.001, 0.5)); }

  membership::State state() const { return *shared_state(); }
  bool leads() const {
    const Lock lock(mutex_);
    return leads_;
  }
  std::string waits_for() const {
    const Lock lock(mutex_);
    return waits_for_;
  }
  void tell(std::string waits_for) {
    const Lock lock(mutex_);
    to_tell_ = std::move(waits_for);
  }
  std::map<int, LatestReport> reports() const {
    const Lock lock(mutex_);
    return reports_.all(published_at_);
  }
  std::vector<int> unfinished() const {
    const Lock lock(mutex_);
    return members_unfinished();
  }
  void note_result(const PublicKey& key) {
    const Lock lock(mutex_);
    reports_.finished(key);
  }
  bool over() const {
    const Lock lock(mutex_);
    const bool is_evaluated =
        !plan_.decides_after(state_->next_step) || state_->evaluated.step >= state_->next_step;
    return state_->finished && is_evaluated && members_unfinished().empty();
  }
  std::optional<uint64_t> final_digest() const {
    const Lock lock(mutex_);
    return reports_.final_digest(*state_);
  }

 private:
  std::unique_ptr<transport::Subscription> subscribe(const char* topic) {
    return courier_.subscribe("", topic, [inbox = inbox_](const std::string&, Bytes statement) {
      inbox->add(ReceivedStatement{std::move(statement)});
    });
  }
  std::shared_ptr<const membership::State> shared_state() const {
    const Lock lock(mutex_);
    return state_;
  }
  std::vector<int> members_unfinished() const REQUIRES(mutex_) {
    return reports_.unfinished(*state_, published_at_, options_.membership);
  }
  void applied(const membership::Record& record, bool earlier);
  void publish_state();
  void decide();
  void take(const ReceivedStatement& received);
  void take(const ReceivedDeparture& received);
  void take(ReadRecord read);
  void take(FetchedPayload fetched);
  void take(const StreamEnd& end) { reading_.take(end, inputs_); }
  void take(const RefusedAppend& refused) { reading_.take(refused); }
  void take(const CountedStore& counted) { strays_.take(counted, coordinator_.state()); }
  void take(const ListedMember& listed);
  void take(FetchedPart part) { sums_.take(std::move(part), awake_); }
  void take(const StoredSum& stored) {
    if (const auto sum = sums_.take(stored, awake_)) send(*sum);
  }
  void take(const membership::Overtaken& overtaken);
  void tell_if_overtaken(const membership::Statement& statement);
  bool is_admissible(const membership::Statement& statement);
  void dismiss(const PublicKey& key);
  bool may_give_back(const membership::Statement& statement) const;
  bool is_auditors(const membership::Statement& statement);
  void take(const membership::Audit& audit, const PublicKey& author);
  void note(const Message& message);
  void note(const Offer& offer);
  void take(const UnkeptPayload& payload) { copies_.take(payload, coordinator_.state()); }
  void take(const OwnBlobs& own) { copies_.take(own); }
  void carry_out(const std::vector<Verdict>& verdicts);
  std::string courier_of(int member) const;
  void act(const membership::Append& append);
  void act(const membership::AskStored& ask);
  void act(const membership::Reread&) { reading_.begin(); }
  void act(const membership::AskRecords& ask) { send(ask); }
  void act(const membership::AskSnapshot& ask) { send(ask); }
  void act(const membership::Refuse& refuse);
  void act(const membership::Notice& notice) const { notify(notice.text); }
  void act(const membership::Halt& halt) const { throw Error(halt.why); }
  void form_sums(const membership::State& state);
  void tell_members();
  void send(Message message);
  void notify(const std::string& text) const {
    if (options_.hooks.message) options_.hooks.message(text);
  }

  transport::Courier& courier_;
  const Signer& signer_;
  const HostOptions options_;
  const uint64_t overlap_;
  const membership::RunPlan& plan_;
  PayloadFilter filter_;
  std::map<PublicKey, AuditBoard> audits_;  // by auditor
  membership::Coordinator coordinator_;
  membership::ReplayWindow received_;
  // When, by author and by whether its clock was ahead.
  std::map<std::pair<PublicKey, bool>, double> told_overtaken_;
  std::set<PublicKey> told_dismissed_;
  std::set<std::pair<PublicKey, std::string>> told_refused_;  // and why
  membership::StatementNumbers numbers_;
  double now_ = 0;    // of the clock of tick()
  double awake_ = 0;  // now_ without the time slept
  std::optional<std::string> told_;
  ptrdiff_t present_ = 0;  // members that have not left
  double told_at_ = 0;
  membership::AwakeClock clock_{options_.membership.retry_s()};
  std::vector<Input> inputs_;
  bool records_wait_ = false;            // there are records among the inputs
  std::multimap<Sha256, Offer> offers_;  // of rounds that are open or open next, by payload
  std::set<OfferName> fetching_;
  RecordNotifier records_{
      [this](const membership::Record& record, bool earlier) { applied(record, earlier); }};
  std::pair<membership::Position, bool> progress_;  // as of the last call of that hook

  mutable Mutex mutex_;
  std::shared_ptr<const membership::State> state_ GUARDED_BY(mutex_) =
      std::make_shared<membership::State>();
  bool leads_ GUARDED_BY(mutex_) = false;
  std::string waits_for_ GUARDED_BY(mutex_);
  std::optional<std::string> to_tell_ GUARDED_BY(mutex_);
  LatestReports reports_ GUARDED_BY(mutex_);
  double published_at_ GUARDED_BY(mutex_) = 0;  // awake_ at the last tick()

  // Callbacks may come until the subscriptions end, and those of requests even later.
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unique_ptr<transport::Subscription> statements_;
  std::unique_ptr<transport::Subscription> announcements_;
  std::unique_ptr<transport::Subscription> departures_;
  LedgerReading reading_{courier_, inbox_};
  StoreCleaner cleaner_{courier_};
  PayloadCopies copies_{courier_, inbox_, cleaner_};
  std::optional<membership::Position> cleaned_;  // as of this record
  StrayCleaner strays_{
      courier_, inbox_, cleaner_, options_.membership, overlap_, options_.snapshot_bytes};
  SumMaker sums_{courier_, inbox_, plan_, options_.sums, options_.keeps};
};

}  // namespace thinwire::serve
