#include "thinwire/serve/coordinator_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "thinwire/base/clock.h"
#include "thinwire/membership/coordinator.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/message_codec.h"
#include "thinwire/serve/host_inbox.h"
#include "thinwire/serve/news_board.h"
#include "thinwire/serve/record_news.h"
#include "thinwire/serve/spent_payloads.h"
#include "thinwire/transport/blob.h"
#include "thinwire/transport/nkey.h"

namespace thinwire::serve {
namespace {

using membership::Input;
using membership::Message;
using membership::Offer;

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
        coordinator_(plan, options_.membership, signer, verify, options_.founding,
                     options_.standby),
        statements_(courier.subscribe("", kMembersTopic,
                                      [inbox = inbox_](const std::string&, Bytes statement) {
                                        inbox->add(HeardStatement{std::move(statement)});
                                      })) {
    read_ledger();
  }

  void tick(double now);
  void wait() { inbox_->wait(std::clamp(options_.membership.timeout_s / 400, 0.001, 0.5)); }

  membership::State state() const {
    const std::lock_guard lock(mutex_);
    return state_;
  }
  bool leads() const {
    const std::lock_guard lock(mutex_);
    return leads_;
  }
  std::map<int, MemberNews> news() const {
    const std::lock_guard lock(mutex_);
    return news_.all();
  }
  bool over() const;
  std::optional<uint64_t> final_digest() const;

 private:
  void read_ledger();
  void decide();
  void follow_connection();
  void take(const HeardStatement& heard);
  void take(ReadRecord read);
  void take(FetchedPayload fetched);
  bool is_admissible(const membership::Statement& statement);
  void note(const Message& message);
  void note_chunks(const Offer& offer, Bytes payload);
  void drop_spent();
  std::string name_of(int member) const;
  void act(const membership::Append& append);
  void act(const membership::AskStored& ask);
  void act(const membership::Reread&) { read_ledger(); }
  void act(const membership::AskRecords& ask) { say(ask); }
  void act(const membership::AskSnapshot& ask) { say(ask); }
  void act(const membership::Refuse& refuse);
  void say(Message message);
  void tell(const std::string& text) const {
    if (options_.hooks.say) options_.hooks.say(text);
  }

  transport::Courier& courier_;
  const Signer& signer_;
  const HostOptions options_;
  const uint64_t overlap_;
  membership::Coordinator coordinator_;
  membership::ReplayWindow heard_;
  membership::StatementNumbers numbers_;
  double now_ = 0;
  bool connected_ = false;
  std::vector<Input> inputs_;
  bool records_wait_ = false;  // there are some among the inputs
  uint64_t reading_ = 0;       // number of the ledger's subscription
  uint64_t stream_last_ = 0;   // the last sequence read; it counts junk that is no record, too
  std::multimap<Sha256, Offer> offers_;  // of rounds that are open or open next, by payload
  std::set<std::pair<Sha256, int>> fetching_;
  std::set<std::pair<Sha256, int>> bad_;
  SpentPayloads spent_;
  RecordNews records_{options_.hooks.record};

  mutable std::mutex mutex_;  // guards what follows, which other threads read
  membership::State state_;
  bool leads_ = false;
  NewsBoard news_;
  double clock_ = 0;

  // Callbacks may come until the subscriptions end, and those of requests even later.
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  std::unique_ptr<transport::Subscription> statements_;
  std::unique_ptr<transport::Subscription> ledger_;
};

void CoordinatorHost::Impl::read_ledger() {
  ledger_.reset();
  stream_last_ = 0;
  ledger_ = courier_.read(kLedgerStream, 1,
                          [inbox = inbox_, reading = ++reading_](uint64_t sequence, Bytes record) {
                            inbox->add(ReadRecord{reading, sequence, std::move(record)});
                          });
}

void CoordinatorHost::Impl::tick(double now) {
  now_ = now;
  const uint64_t before = coordinator_.state().position.sequence;
  follow_connection();
  for (Arrival& arrival : inbox_->take()) {
    // A statement may be about what the records before it say.
    if (records_wait_ && std::holds_alternative<HeardStatement>(arrival)) decide();
    std::visit([this](auto& one) { take(std::move(one)); }, arrival);
  }
  decide();
  drop_spent();
  const membership::State& state = coordinator_.state();
  // The coordinator asks for those of the rounds that open next, too.
  std::erase_if(offers_, [&, next = state.next_round](const auto& offer) {
    const uint64_t round = offer.second.round;
    const bool is_next = round >= next && round <= next + overlap_;
    return !is_next && state.opening(round) == nullptr;
  });
  {
    const std::lock_guard lock(mutex_);
    state_ = state;
    leads_ = coordinator_.leads();
    clock_ = now;
  }
  if (state.position.sequence == before) return;
  records_.tell(before, state.position.sequence);
  if (options_.hooks.progress) options_.hooks.progress(state);
}

void CoordinatorHost::Impl::decide() {
  records_wait_ = false;
  const std::vector<Input> inputs = std::exchange(inputs_, {});
  for (const membership::Action& action : coordinator_.tick(inputs, now_)) {
    std::visit([this](const auto& one) { act(one); }, action);
  }
}

// The courier restores connections by itself; what was under way goes on.
void CoordinatorHost::Impl::follow_connection() {
  const bool connected = courier_.connected();
  if (connected == std::exchange(connected_, connected)) return;
  if (connected) {
    inputs_.emplace_back(membership::StoreConnected{coordinator_.state().position.sequence});
  } else {
    inputs_.emplace_back(membership::StoreDisconnected{});
  }
}

void CoordinatorHost::Impl::take(ReadRecord read) {
  if (read.reading != reading_) return;
  stream_last_ = read.sequence;
  records_wait_ = true;
  const auto record = membership::decode_record(read.bytes);
  if (record && record->closing) spent_.closed(record->closing->round, record->sequence);
  if (record) records_.read(*record);
  inputs_.emplace_back(membership::RecordRead{std::move(read.bytes)});
}

void CoordinatorHost::Impl::take(const HeardStatement& heard) {
  auto statement = membership::decode_statement(heard.bytes, options_.founding.run, verify);
  if (!statement || !is_admissible(*statement)) return;
  note(statement->message);
  std::visit(
      [this](auto& one) {
        using Kind = std::decay_t<decltype(one)>;
        if constexpr (std::is_constructible_v<Input, Kind>) inputs_.emplace_back(std::move(one));
      },
      statement->message);
}

// Whether its author may say it.
bool CoordinatorHost::Impl::is_admissible(const membership::Statement& statement) {
  const membership::State& state = coordinator_.state();
  if (!heard_.is_new(statement.author, statement.number)) return false;
  if (membership::is_coordinators(statement.message)) {
    return std::holds_alternative<membership::Misconduct>(statement.message) && state.founding &&
           std::ranges::binary_search(state.founding->coordinators, statement.author);
  }
  if (const auto* hello = std::get_if<membership::Hello>(&statement.message)) {
    if (hello->key != statement.author) return false;
    const std::string why =
        options_.hooks.refuse ? options_.hooks.refuse(hello->key) : std::string();
    if (!why.empty()) act(membership::Refuse{hello->key, why});
    return why.empty();
  }
  const int member = membership::speaker(statement.message);
  return state.knows(member) && state.members[static_cast<size_t>(member)].key == statement.author;
}

void CoordinatorHost::Impl::note(const Message& message) {
  const std::lock_guard lock(mutex_);
  if (const auto* hello = std::get_if<membership::Hello>(&message)) news_.hear(*hello);
  const int member = membership::speaker(message);
  if (member < 0) return;
  news_.hear(member, coordinator_.state().members[static_cast<size_t>(member)].key, message, now_);
  if (const auto* offer = std::get_if<Offer>(&message)) {
    const auto [first, last] = offers_.equal_range(offer->payload);
    const bool known = std::any_of(
        first, last, [&](const auto& one) { return one.second.member == offer->member; });
    if (!known) offers_.emplace(offer->payload, *offer);
  }
}

void CoordinatorHost::Impl::take(FetchedPayload fetched) {
  const Offer& offer = fetched.offer;
  fetching_.erase({offer.payload, offer.member});
  if (!fetched.bytes) return;  // it is offered again
  const std::string wrong =
      options_.hooks.check ? options_.hooks.check(offer, *fetched.bytes) : std::string();
  note_chunks(offer, *std::move(fetched.bytes));
  if (wrong.empty()) {
    const std::lock_guard lock(mutex_);
    news_.arrived(offer);
    inputs_.emplace_back(membership::Acknowledged{offer.payload});
    return;
  }
  bad_.emplace(offer.payload, offer.member);
  tell(fmt::format("member {}'s payload of round {} does not count: {}", offer.member, offer.round,
                   wrong));
  inputs_.emplace_back(membership::Misconduct{offer.member, wrong});
}

// What it consists of, for the time when nobody needs it any more.
void CoordinatorHost::Impl::note_chunks(const Offer& offer, Bytes payload) {
  if (payload.empty()) return;  // all empty payloads are one chunk
  const auto bytes = std::make_shared<const Bytes>(std::move(payload));
  std::vector<Sha256> names;
  const transport::BlobChunks blob(bytes);
  for (const transport::Chunk& chunk : blob.chunks()) {
    names.push_back(chunk.name);
  }
  spent_.offered(offer.round, name_of(offer.member), names);
}

std::string CoordinatorHost::Impl::name_of(int member) const {
  return transport::participant_name(coordinator_.state().members[static_cast<size_t>(member)].key);
}

void CoordinatorHost::Impl::drop_spent() {
  if (!coordinator_.leads()) return;
  for (const SpentPayloads::Chunk& chunk : spent_.take(coordinator_.state().replayable_from())) {
    courier_.drop(chunk.name, chunk.holder, [](const Result<void>&) {});
  }
}

// If it is refused because the stream has come further, what came brings the next decision.
void CoordinatorHost::Impl::act(const membership::Append& append) {
  records_.decides(append.expected_last);
  courier_.append(kLedgerStream, stream_last_, append.record, [](const Result<uint64_t>&) {});
}

void CoordinatorHost::Impl::act(const membership::AskStored& ask) {
  const auto [first, last] = offers_.equal_range(ask.payload);
  for (auto one = first; one != last; ++one) {
    const Offer& offer = one->second;
    const std::pair name(offer.payload, offer.member);
    if (bad_.contains(name) || !fetching_.insert(name).second) continue;
    courier_.get({offer.payload, offer.bytes}, {name_of(offer.member)}, transport::Priority::kRound,
                 [inbox = inbox_, offer](Result<Bytes> bytes) {
                   inbox->add(FetchedPayload{offer, std::move(bytes)});
                 });
  }
}

void CoordinatorHost::Impl::act(const membership::Refuse& refuse) {
  tell(fmt::format("{} was refused: {}", transport::participant_name(refuse.key), refuse.why));
  say(refuse);
}

void CoordinatorHost::Impl::say(Message message) {
  courier_.publish(
      kCoordinatorsTopic,
      membership::encode_statement(
          {options_.founding.run, signer_.key(), numbers_.next(), std::move(message)}, signer_));
}

bool CoordinatorHost::Impl::over() const {
  const std::lock_guard lock(mutex_);
  if (!state_.finished) return false;
  for (int member = 0; std::cmp_less(member, state_.members.size()); ++member) {
    const membership::Phase phase = state_.members[static_cast<size_t>(member)].phase;
    if (is_gone(phase) || phase == membership::Phase::kWaiting) continue;
    const auto news = news_.all().find(member);
    if (news == news_.all().end() || news->second.left) continue;
    const bool silent = clock_ - news->second.heard_at >= options_.membership.silence_s();
    if (!silent && news->second.position < state_.last_closing) return false;
  }
  return true;
}

std::optional<uint64_t> CoordinatorHost::Impl::final_digest() const {
  const std::lock_guard lock(mutex_);
  if (!state_.finished) return std::nullopt;
  std::map<uint64_t, int> votes;
  for (const auto& [member, news] : news_.all()) {
    if (news.digest && news.digest->round + 1 == state_.next_round) ++votes[news.digest->digest];
  }
  if (votes.empty()) return std::nullopt;
  return std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; })->first;
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
std::map<int, MemberNews> CoordinatorHost::news() const { return impl_->news(); }
bool CoordinatorHost::over() const { return impl_->over(); }
std::optional<uint64_t> CoordinatorHost::final_digest() const { return impl_->final_digest(); }

}  // namespace thinwire::serve
