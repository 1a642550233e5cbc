#include "thinwire/serve/coordinator_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/membership/awake_clock.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/audit_board.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/latest_reports.h"
#include "thinwire/serve/ledger_reading.h"
#include "thinwire/serve/payload_copies.h"
#include "thinwire/serve/payload_filter.h"
#include "thinwire/serve/record_notifier.h"
#include "thinwire/serve/store_cleaner.h"
#include "thinwire/serve/stray_cleaner.h"
#include "thinwire/serve/sum_maker.h"
#include "thinwire/transport/nats/connection_notice.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::serve {
namespace {

using membership::Input;
using membership::Message;
using membership::Offer;

// Which member's payload it is, and for which operation.
using OfferName = std::tuple<Sha256, int, uint64_t, uint32_t, uint32_t>;

OfferName name_of(const Offer& offer) {
  return {offer.payload, offer.member, offer.round, offer.epoch, offer.fragment};
}

membership::Overdue overdue_name(const Offer& offer) {
  return {offer.member, offer.round, offer.fragment};
}

const HostOptions& checked(const transport::Courier& courier, const Signer& signer,
                           const HostOptions& options) {
  options.membership.check();
  const std::string name = transport::participant_name(signer.key());
  if (courier.self() != name) {
    throw UsageError(fmt::format(
        "a coordinator's courier must have the name of its key, {}, got {}", name, courier.self()));
  }
  return options;
}

}  // namespace

class CoordinatorHost::Impl {
 public:
  Impl(transport::Courier& courier, const Signer& signer, const membership::RunPlan& plan,
       const HostOptions& options)
      : courier_(courier),
        signer_(signer),
        options_(checked(courier, signer, options)),
        overlap_(plan.overlap()),
        plan_(plan),
        filter_(options_.membership.takeover_s()),
        coordinator_(plan, options_.membership, signer, verify, options_.founding,
                     options_.standby),
        statements_(subscribe(kMembersTopic)),
        announcements_(subscribe(kAnnouncementsTopic)),
        departures_(courier.subscribe(transport::kServerParticipant, transport::kDepartureTopic,
                                      [inbox = inbox_](const std::string& from, Bytes statement) {
                                        if (from == transport::kServerParticipant) {
                                          inbox->add(ReceivedDeparture{std::move(statement)});
                                        }
                                      })) {
    reading_.begin();
    if (options_.keeps) copies_.begin();
  }

  void tick(double now);
  void protect(std::vector<Sha256> chunks) const { inbox_->add(OwnChunks{std::move(chunks)}); }
  void wait() { inbox_->wait(std::clamp(options_.membership.timeout_s / 400, 0.001, 0.5)); }

  membership::State state() const { return *shared_state(); }
  bool leads() const {
    const std::lock_guard lock(mutex_);
    return leads_;
  }
  std::map<int, LatestReport> reports() const {
    const std::lock_guard lock(mutex_);
    return reports_.all(awake_);
  }
  std::vector<int> unfinished() const {
    const std::lock_guard lock(mutex_);
    return reports_.unfinished(*state_, awake_, options_.membership.linger_s());
  }
  void note_result(const PublicKey& key) {
    const std::lock_guard lock(mutex_);
    reports_.finished(key);
  }
  bool over() const {
    const std::lock_guard lock(mutex_);
    return state_->finished &&
           reports_.unfinished(*state_, awake_, options_.membership.linger_s()).empty();
  }
  std::optional<uint64_t> final_digest() const {
    const std::lock_guard lock(mutex_);
    return reports_.final_digest(*state_);
  }

 private:
  std::unique_ptr<transport::Subscription> subscribe(const char* topic) {
    return courier_.subscribe("", topic, [inbox = inbox_](const std::string&, Bytes statement) {
      inbox->add(ReceivedStatement{std::move(statement)});
    });
  }
  std::shared_ptr<const membership::State> shared_state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  void publish_state();
  void decide();
  void take(const ReceivedStatement& received);
  void take(const ReceivedDeparture& received);
  void take(ReadRecord read);
  void take(FetchedPayload fetched);
  void take(const StreamEnd& end) { reading_.take(end, inputs_); }
  void take(const RefusedAppend& refused) { reading_.take(refused); }
  void take(ListedSnapshot listed) {
    cleaned_.reset();
    cleaner_.take(std::move(listed));
  }
  void take(ListedPayload listed) {
    cleaned_.reset();
    cleaner_.take(std::move(listed));
  }
  void take(const CountedStore& counted) { strays_.take(counted, coordinator_.state()); }
  void take(const ListedMember& listed);
  void take(FetchedPart part) { sums_.take(std::move(part), awake_); }
  void take(const StoredSum& stored) {
    if (const auto sum = sums_.take(stored, awake_)) send(*sum);
  }
  bool is_admissible(const membership::Statement& statement);
  bool is_auditors(const membership::Statement& statement);
  void take(const membership::Audit& audit, const PublicKey& author);
  void note(const Message& message);
  void note(const Offer& offer);
  void take(const UnkeptPayload& payload) { copies_.take(payload, coordinator_.state()); }
  void take(OwnChunks own) { copies_.take(std::move(own)); }
  void carry_out(const std::vector<Verdict>& verdicts);
  std::string courier_of(int member) const;
  void act(const membership::Append& append);
  void act(const membership::AskStored& ask);
  void act(const membership::Reread&) { reading_.begin(); }
  void act(const membership::AskRecords& ask) { send(ask); }
  void act(const membership::AskSnapshot& ask) { send(ask); }
  void act(const membership::Refuse& refuse);
  void form_sums(const membership::State& state);
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
  membership::StatementNumbers numbers_;
  double now_ = 0;  // of the clock of tick()
  membership::AwakeClock clock_{options_.membership.retry_s()};
  std::vector<Input> inputs_;
  bool records_wait_ = false;            // there are records among the inputs
  std::multimap<Sha256, Offer> offers_;  // of rounds that are open or open next, by payload
  std::set<OfferName> fetching_;
  RecordNotifier records_{options_.hooks.record};

  mutable std::mutex mutex_;  // guards what follows, which other threads read
  std::shared_ptr<const membership::State> state_ = std::make_shared<membership::State>();
  bool leads_ = false;
  LatestReports reports_;
  double awake_ = 0;  // now_ without the time slept

  // Callbacks may come until the subscriptions end, and those of requests even later.
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unique_ptr<transport::Subscription> statements_;
  std::unique_ptr<transport::Subscription> announcements_;
  std::unique_ptr<transport::Subscription> departures_;
  LedgerReading reading_{courier_, inbox_};
  StoreCleaner cleaner_{courier_, inbox_, options_.keeps};
  PayloadCopies copies_{courier_, inbox_, cleaner_};
  std::optional<membership::Position> cleaned_;  // as of this record; none: there is news
  StrayCleaner strays_{courier_, inbox_, cleaner_, options_.membership, overlap_};
  SumMaker sums_{courier_, inbox_, plan_, options_.sums, options_.keeps};
};

void CoordinatorHost::Impl::tick(double now) {
  now_ = now;
  {
    const std::lock_guard lock(mutex_);
    awake_ = clock_.at(now);
    reports_.begin(awake_);
  }
  const uint64_t before = coordinator_.state().position.sequence;
  reading_.follow_connection(inputs_);
  for (Arrival& arrival : inbox_->take()) {
    // A statement may refer to the records before it.
    if (records_wait_ && std::holds_alternative<ReceivedStatement>(arrival)) decide();
    std::visit([this](auto& one) { take(std::move(one)); }, arrival);
  }
  carry_out(filter_.tick(awake_));
  decide();
  const membership::State& state = coordinator_.state();
  filter_.forget_before(state.oldest_countable());
  if (coordinator_.leads() && reading_.is_complete()) {
    if (cleaned_ != state.position) cleaner_.clean(state);
    cleaned_ = state.position;
    strays_.tick(state, awake_);
    form_sums(state);
  }
  publish_state();
  if (state.position.sequence == before) return;
  records_.notify(before, state.position.sequence);
  if (options_.hooks.progress) options_.hooks.progress(state);
}

void CoordinatorHost::Impl::form_sums(const membership::State& state) {
  const auto left = sums_.tick(
      state, awake_, [this](const StoredChunk& chunk) { return cleaner_.uses(chunk); },
      [this](const PublicKey& key) {
        const std::lock_guard lock(mutex_);
        return reports_.down_bytes_s(key);
      });
  for (const membership::Sum& sum : left) send(sum);
}

// What depends on the state alone is done when there is another one: it takes as long as there are
// members.
void CoordinatorHost::Impl::publish_state() {
  const membership::State& state = coordinator_.state();
  std::shared_ptr<const membership::State> known = shared_state();
  if (known->position != state.position) {
    known = std::make_shared<membership::State>(state);
    // Also kept are those of the rounds that open next, and late ones that may count: the
    // coordinator asks for these, too.
    std::erase_if(offers_, [&, next = state.next_round](const auto& offer) {
      const uint64_t round = offer.second.round;
      const bool is_next = round >= next && round <= next + overlap_;
      return !is_next && state.opening(round) == nullptr &&
             !state.overdue.contains(overdue_name(offer.second));
    });
  }
  const std::lock_guard lock(mutex_);
  state_ = std::move(known);
  leads_ = coordinator_.leads();
}

void CoordinatorHost::Impl::decide() {
  records_wait_ = false;
  const std::vector<Input> inputs = std::exchange(inputs_, {});
  for (const membership::Action& action : coordinator_.tick(inputs, now_)) {
    std::visit([this](const auto& one) { act(one); }, action);
  }
}

void CoordinatorHost::Impl::take(ReadRecord read) {
  if (!reading_.is_current(read)) return;
  records_wait_ = true;
  std::optional<Bytes> bytes = reading_.join(std::move(read.bytes));
  const auto record = membership::decode_record(bytes ? *bytes : Bytes());
  const bool counts =
      record && membership::is_by_coordinator(*bytes, *record, options_.founding, verify);
  if (counts) {
    cleaner_.read(*record);
    sums_.read(*record);
    records_.read(*record);
    inputs_.emplace_back(membership::RecordRead{*std::move(bytes)});
  }
  reading_.processed(read.sequence, counts ? record->sequence : 0, inputs_);
}

void CoordinatorHost::Impl::take(const ReceivedStatement& received) {
  auto statement = membership::decode_statement(received.bytes, options_.founding.run, verify);
  if (!statement || !is_admissible(*statement)) return;
  note(statement->message);
  const auto* loss = std::get_if<membership::Loss>(&statement->message);
  if (loss != nullptr && options_.hooks.loss) options_.hooks.loss(*loss);
  const auto* audit = std::get_if<membership::Audit>(&statement->message);
  if (audit != nullptr) take(*audit, statement->author);
  std::visit(
      [this](auto& one) {
        using Kind = std::decay_t<decltype(one)>;
        if constexpr (std::is_constructible_v<Input, Kind>) inputs_.emplace_back(std::move(one));
      },
      statement->message);
}

void CoordinatorHost::Impl::take(const ReceivedDeparture& received) {
  if (const auto notice = transport::parse_connection_notice(received.bytes)) {
    inputs_.emplace_back(membership::Departed{notice->owner});
  }
}

// Whether its author may send it.
bool CoordinatorHost::Impl::is_admissible(const membership::Statement& statement) {
  const membership::State& state = coordinator_.state();
  if (!received_.is_new(statement.author, statement.number)) return false;
  if (membership::is_from_coordinator(statement.message)) {
    return std::holds_alternative<membership::Misconduct>(statement.message) && state.founding &&
           std::ranges::binary_search(state.founding->coordinators, statement.author);
  }
  if (std::holds_alternative<membership::Audit>(statement.message)) return is_auditors(statement);
  if (const auto* join = std::get_if<membership::JoinRequest>(&statement.message)) {
    if (join->key != statement.author) return false;
    const std::string why =
        options_.hooks.refuse ? options_.hooks.refuse(join->key) : std::string();
    if (!why.empty() && coordinator_.leads()) act(membership::Refuse{join->key, why});
    return why.empty();
  }
  const int member = membership::sender(statement.message);
  return state.knows(member) && state.members[static_cast<size_t>(member)].key == statement.author;
}

bool CoordinatorHost::Impl::is_auditors(const membership::Statement& statement) {
  const bool is_auditor = options_.hooks.is_auditor && options_.hooks.is_auditor(statement.author);
  if (!is_auditor && coordinator_.leads()) {
    act(membership::Refuse{statement.author,
                           "its key is not an auditor's: only those who enrolled "
                           "with an auditor's token may audit"});
  }
  return is_auditor &&
         coordinator_.state().knows(std::get<membership::Audit>(statement.message).member);
}

void CoordinatorHost::Impl::take(const membership::Audit& audit, const PublicKey& author) {
  AuditBoard& board = audits_.try_emplace(author, options_.equal_rows).first->second;
  const std::string why = board.take(audit);
  {
    const auto [audits, effect] = board.of(audit.member);
    const std::lock_guard lock(mutex_);
    reports_.audited(audit.member, audits, effect);
  }
  if (why.empty()) return;
  inputs_.emplace_back(membership::Misconduct{audit.member, why});
  notify(fmt::format("member {} does not compute what it is assigned: {}", audit.member, why));
  if (!coordinator_.leads()) return;
  send(
      membership::Refuse{coordinator_.state().members[static_cast<size_t>(audit.member)].key, why});
}

void CoordinatorHost::Impl::note(const Message& message) {
  const std::lock_guard lock(mutex_);
  if (const auto* join = std::get_if<membership::JoinRequest>(&message)) reports_.receive(*join);
  const int member = membership::sender(message);
  if (member < 0) return;
  reports_.receive(member, coordinator_.state().members[static_cast<size_t>(member)].key, message,
                   awake_);
  if (const auto* offer = std::get_if<Offer>(&message)) {
    note(*offer);
  } else if (const auto* announced = std::get_if<membership::Announcement>(&message)) {
    if (coordinator_.is_expected(announced->offer)) filter_.offered(announced->offer);
  }
}

// Equal bytes may be offered for several operations.
void CoordinatorHost::Impl::note(const Offer& offer) {
  if (!coordinator_.is_expected(offer) || !filter_.offered(offer)) return;
  const auto [first, last] = offers_.equal_range(offer.payload);
  const bool known = std::any_of(
      first, last, [&](const auto& one) { return name_of(one.second) == name_of(offer); });
  if (!known) offers_.emplace(offer.payload, offer);
}

void CoordinatorHost::Impl::take(FetchedPayload fetched) {
  const Offer& offer = fetched.offer;
  fetching_.erase(name_of(offer));
  if (!fetched.bytes) {  // it will be offered again
    if (fetched.bytes.error().kind == FailureKind::kLostPeer) {
      send(membership::Lacking{offer.payload});
    }
    return;
  }
  // A late one is compared with those that were there when its round was closed, and waits for no
  // others.
  const membership::State& state = coordinator_.state();
  const membership::Opening* opening = state.opening(offer.round);
  const membership::OverdueTerms* late = state.overdue_terms(overdue_name(offer));
  uint64_t weight = late == nullptr ? 0 : late->weight;
  if (opening != nullptr) weight = weight_of(*opening, offer.member);
  const size_t roster = opening == nullptr || !options_.hooks.check ? 1 : opening->roster.size();
  Result<std::optional<PayloadContent>> content;
  if (options_.hooks.check) {
    content = options_.hooks.check(offer, std::max<uint64_t>(weight, 1), *fetched.bytes);
  }
  if (options_.keeps && content) {
    copies_.keep({offer.round, std::make_shared<const Bytes>(*fetched.bytes)});
  }
  cleaner_.offered(offer.round, courier_of(offer.member), *std::move(fetched.bytes));
  carry_out(filter_.take(offer, content, roster, awake_));
}

void CoordinatorHost::Impl::take(const ListedMember& listed) {
  const auto offence = strays_.take(listed, coordinator_.state());
  if (!offence) return;
  inputs_.emplace_back(*offence);
  notify(fmt::format("member {} misuses the store: {}", offence->member, offence->what));
}

void CoordinatorHost::Impl::carry_out(const std::vector<Verdict>& verdicts) {
  for (const auto& [offer, why] : verdicts) {
    if (why.empty()) {
      inputs_.emplace_back(membership::Acknowledged{offer.payload, offer.member});
    } else {
      inputs_.emplace_back(membership::PayloadRefused{offer, why});
      notify(fmt::format("member {}'s payload of round {} does not count: {}", offer.member,
                         offer.round, why));
    }
    const std::lock_guard lock(mutex_);
    if (why.empty()) {
      reports_.arrived(offer);
    } else {
      reports_.refused(offer, why);
    }
  }
}

std::string CoordinatorHost::Impl::courier_of(int member) const {
  return transport::participant_name(coordinator_.state().members[static_cast<size_t>(member)].key);
}

void CoordinatorHost::Impl::act(const membership::Append& append) {
  records_.decides(append.expected_last);
  reading_.append(append.record);
}

void CoordinatorHost::Impl::act(const membership::AskStored& ask) {
  const auto [first, last] = offers_.equal_range(ask.payload);
  for (auto one = first; one != last; ++one) {
    const Offer& offer = one->second;
    if (!fetching_.insert(name_of(offer)).second) continue;
    courier_.get({offer.payload, offer.bytes}, {courier_of(offer.member)},
                 transport::Priority::kRound, [inbox = inbox_, offer](Result<Bytes> bytes) {
                   inbox->add(FetchedPayload{offer, std::move(bytes)});
                 });
  }
}

void CoordinatorHost::Impl::act(const membership::Refuse& refuse) {
  notify(fmt::format("{} was refused: {}", transport::participant_name(refuse.key), refuse.why));
  send(refuse);
}

void CoordinatorHost::Impl::send(Message message) {
  courier_.publish(
      kCoordinatorsTopic,
      membership::encode_statement(
          {options_.founding.run, signer_.key(), numbers_.next(), std::move(message)}, signer_));
}

CoordinatorHost::CoordinatorHost(transport::Courier& courier, const Signer& signer,
                                 const membership::RunPlan& plan, const HostOptions& options)
    : impl_(std::make_unique<Impl>(courier, signer, plan, options)) {}

CoordinatorHost::~CoordinatorHost() = default;

void CoordinatorHost::tick(double now) { impl_->tick(now); }

void CoordinatorHost::run(const std::atomic<bool>& stop) {
  while (!stop && !over()) {
    tick(monotonic_seconds());
    impl_->wait();
  }
}

membership::State CoordinatorHost::state() const { return impl_->state(); }
bool CoordinatorHost::leads() const { return impl_->leads(); }
std::map<int, LatestReport> CoordinatorHost::reports() const { return impl_->reports(); }
std::vector<int> CoordinatorHost::unfinished() const { return impl_->unfinished(); }
void CoordinatorHost::protect(std::vector<Sha256> chunks) { impl_->protect(std::move(chunks)); }
void CoordinatorHost::note_result(const PublicKey& key) { impl_->note_result(key); }
bool CoordinatorHost::over() const { return impl_->over(); }
std::optional<uint64_t> CoordinatorHost::final_digest() const { return impl_->final_digest(); }

}  // namespace thinwire::serve
