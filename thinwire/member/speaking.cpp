// What a follower hears and says.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "thinwire/base/clock.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::member {
namespace {

using membership::Message;

membership::Options times_of(double timeout_s) {
  membership::Options options;
  options.timeout_s = timeout_s;
  return options;
}

// Others' offers are only displayed and decide nothing, so their signatures are not verified here.
bool unchecked(const PublicKey&, std::span<const uint8_t>, const Signature&) { return true; }

}  // namespace

Follower::Impl::Impl(transport::Courier& courier, const Signer& signer,
                     const membership::RecipePlan& plan, FollowerSettings settings)
    : view_(settings.founding),
      courier_(courier),
      signer_(signer),
      plan_(plan),
      settings_(std::move(settings)),
      times_(times_of(settings_.timeout_s)),
      retry_s_(std::min(1.0, times_.settle_s())),
      fetcher_(courier, retry_s_) {}

void Follower::Impl::start() {
  statements_ = courier_.subscribe("", serve::kCoordinatorsTopic,
                                   [this](const std::string&, const Bytes& bytes) { hear(bytes); });
  offers_of_others_ =
      courier_.subscribe("", serve::kMembersTopic, [this](const std::string&, const Bytes& bytes) {
        const auto statement =
            membership::decode_statement(bytes, settings_.founding.run, unchecked);
        if (!statement) return;
        const auto* offer = std::get_if<membership::Offer>(&statement->message);
        if (offer == nullptr) return;
        const std::lock_guard lock(mutex_);
        if (offer->round + 1 < view_.state().next_round + 8) {
          ++offers_heard_[offer->round][offer->member];
        }
      });
  read_ledger();
  speaker_ = std::thread([this] { speak_loop(); });
}

void Follower::Impl::fall_silent() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    speak_.notify_all();
  }
  if (speaker_.joinable()) speaker_.join();
}

void Follower::Impl::close() {
  fall_silent();
  ledger_.reset();
  statements_.reset();
  offers_of_others_.reset();
}

void Follower::Impl::read_ledger() {
  ledger_.reset();
  ledger_ = courier_.read(serve::kLedgerStream, 1,
                          [this](uint64_t, const Bytes& record) { take_record(record); });
}

void Follower::Impl::take_record(const Bytes& record) {
  const std::lock_guard lock(mutex_);
  const LedgerView::Taken taken = view_.take(record);
  if (taken == LedgerView::Taken::kIgnored) return;
  if (taken == LedgerView::Taken::kForked) {
    starts_over_ = "the ledger is not the one read before";
    reads_again_ = true;
    speak_soon();
  } else {
    follow_own_phase();
    drop_closed_offers();
    const membership::Member* member = own();
    if (member == nullptr || member->phase != membership::Phase::kActive) speak_soon();
  }
  changed_.notify_all();
}

void Follower::Impl::drop_closed_offers() {
  const membership::State& state = view_.state();
  const uint64_t front = state.open.empty() ? state.next_round : state.open.front().round;
  std::erase_if(offers_, [&](const auto& offer) { return offer.first.first < front; });
  std::erase_if(offers_heard_, [&](const auto& round) { return round.first < front; });
  if (!snapshot_) return;
  const auto held = state.snapshots.find(snapshot_->snapshot.sequence);
  const bool known =
      held != state.snapshots.end() && held->second.holders.contains(snapshot_->snapshot.member);
  const bool obsolete = snapshot_->snapshot.sequence < state.replayable_from();
  if (known || obsolete) snapshot_.reset();
}

void Follower::Impl::hear(const Bytes& bytes) {
  const auto statement = membership::decode_statement(bytes, settings_.founding.run, verify);
  if (!statement || !membership::is_coordinators(statement->message)) return;
  if (!std::ranges::binary_search(settings_.founding.coordinators, statement->author)) return;
  {
    const std::lock_guard lock(mutex_);
    if (!heard_.is_new(statement->author, statement->number)) return;
  }
  answer(statement->message);
}

void Follower::Impl::answer(const Message& message) {
  Lock lock(mutex_);
  if (const auto* refuse = std::get_if<membership::Refuse>(&message)) {
    if (refuse->key != signer_.key()) return;
    if (!own_id()) refused_ = refuse->why;
    changed_.notify_all();
    lock.unlock();
    if (settings_.hooks.say) settings_.hooks.say("the coordinator refused: " + refuse->why);
    return;
  }
  const auto id = own_id();
  if (!id) return;
  if (const auto* ask = std::get_if<membership::AskSnapshot>(&message)) {
    if (ask->member == *id && !snapshot_) snapshot_asked_ = true;
  } else if (const auto* records = std::get_if<membership::AskRecords>(&message)) {
    if (records->member != *id) return;
    constexpr size_t kRoom = 1 << 10;  // for the statement around them
    membership::Supply supply{
        *id, view_.records_from(records->first, transport::kMaxMessageBytes - kRoom)};
    lock.unlock();
    if (!supply.records.empty()) say({std::move(supply)});
  }
}

// --- speaking

void Follower::Impl::speak_loop() {
  Lock lock(mutex_);
  while (!closing_) {
    speak_.wait_for(lock, std::chrono::duration<double>(silent_s()),
                    [this] { return speaks_now_ || closing_; });
    if (closing_) return;
    speaks_now_ = false;
    const bool reads_again = std::exchange(reads_again_, false);
    const std::vector<Message> messages = repeated();
    store_again(lock);
    lock.unlock();
    if (reads_again) read_ledger();
    say(messages);
    lock.lock();
  }
}

// Until the next report, or until the store is given something again.
double Follower::Impl::silent_s() const {
  const double now = monotonic_seconds();
  double seconds = times_.report_s();
  for (const auto& [name, offered] : offers_) {
    if (offered.stored || offered.storing) continue;
    seconds = std::min(seconds, std::max(0.0, offered.store_at - now));
  }
  return seconds;
}

// Everything that the coordinator should know and may not have heard.
std::vector<Message> Follower::Impl::repeated() {
  std::vector<Message> messages;
  const membership::Member* member = own();
  if (member == nullptr || is_gone(member->phase)) {
    messages.emplace_back(membership::Hello{signer_.key(), position(), settings_.down_bytes_s});
    return messages;
  }
  messages.emplace_back(membership::Report{*own_id(), position(), digest_});
  for (const auto& [name, offered] : offers_) {
    if (!offered.stored || view_.state().opening(name.first) == nullptr) continue;
    messages.emplace_back(offered.offer);
  }
  if (snapshot_) messages.emplace_back(*snapshot_);
  return messages;
}

void Follower::Impl::say(const std::vector<Message>& messages) {
  const std::lock_guard lock(speaking_);
  for (const Message& message : messages) {
    courier_.publish(
        serve::kMembersTopic,
        membership::encode_statement(
            {settings_.founding.run, signer_.key(), numbers_.next(), message}, signer_));
  }
}

void Follower::Impl::offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds) {
  const auto blob = std::make_shared<const Bytes>(std::move(payload));
  const transport::BlobId id = transport::blob_id(*blob);
  {
    const std::lock_guard lock(mutex_);
    const LedgerRound* entry = view_.round(round);
    const auto self = own_id();
    if (entry == nullptr || !self || entry->closing) return;
    fetcher_.keep(id, blob);
    offers_[{round, fragment}] = {
        {*self, round, entry->opening.epoch, fragment, id.name, id.bytes, seconds},
        blob,
        false,
        true};
  }
  store({round, fragment}, blob);
}

void Follower::Impl::store(std::pair<uint64_t, uint32_t> name,
                           const std::shared_ptr<const Bytes>& blob) {
  const std::weak_ptr<Impl> weak = weak_from_this();
  courier_.put(blob, transport::Priority::kRound, [weak, name](const Result<void>& stored) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    const auto offered = self->offers_.find(name);
    if (offered == self->offers_.end()) return;
    offered->second.storing = false;
    offered->second.stored = stored.has_value();
    // A time-out has taken its time already; a full disk is full a moment later, too.
    const bool refused = !stored && stored.error().kind != FailureKind::kDeadline;
    offered->second.store_at = refused ? monotonic_seconds() + self->retry_s_ : 0;
    self->speak_soon();
  });
}

// Sends again what the store did not accept.
void Follower::Impl::store_again(Lock& lock) {
  std::vector<std::pair<std::pair<uint64_t, uint32_t>, std::shared_ptr<const Bytes>>> again;
  const double now = monotonic_seconds();
  for (auto& [name, offered] : offers_) {
    if (offered.stored || offered.storing || offered.store_at > now) continue;
    offered.storing = true;
    again.emplace_back(name, offered.blob);
  }
  if (again.empty()) return;
  lock.unlock();
  for (const auto& [name, blob] : again) store(name, blob);
  lock.lock();
}

void Follower::Impl::give_snapshot(int64_t steps, Bytes content) {
  const auto blob = std::make_shared<const Bytes>(std::move(content));
  const transport::BlobId id = transport::blob_id(*blob);
  membership::SnapshotReady ready;
  {
    const std::lock_guard lock(mutex_);
    snapshot_asked_ = false;
    const uint64_t settled = plan_.settled_rounds(static_cast<uint64_t>(steps));
    const LedgerRound* last = settled == 0 ? nullptr : view_.round(settled - 1);
    if (last == nullptr || !last->closing || !digest_ || !own_id()) return;
    ready = {{*own_id(), last->closed_at, id.name, id.bytes},
             *digest_,
             view_.position(last->closed_at).hash};
  }
  const std::weak_ptr<Impl> weak = weak_from_this();
  courier_.put(blob, transport::Priority::kBulk, [weak, ready](const Result<void>& stored) {
    const auto self = weak.lock();
    if (!self || !stored) return;  // the coordinator asks again
    const std::lock_guard lock(self->mutex_);
    if (!self->view_.has({ready.snapshot.sequence, ready.record})) return;  // it lost its history
    self->snapshot_ = ready;
    self->speak_soon();
  });
}

// The network carries what one participant sends in order, so once it has stored something sent
// later, it has received this.
void Follower::Impl::say_goodbye(double seconds) {
  fall_silent();
  Lock lock(mutex_);
  const auto id = own_id();
  if (!id) return;
  const std::vector<Message> messages{membership::Report{*id, position(), digest_},
                                      membership::Goodbye{*id}};
  lock.unlock();
  say(messages);
  const auto stored = std::make_shared<std::promise<void>>();
  std::future<void> done = stored->get_future();
  courier_.put(std::make_shared<const Bytes>(), transport::Priority::kRound,
               [stored](const Result<void>&) { stored->set_value(); });
  done.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace thinwire::member
