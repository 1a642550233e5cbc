// What a follower sends: reports, offers, losses and snapshots.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/serve/coordinator_host.h"

namespace thinwire::member {
namespace {

using membership::Message;

constexpr uint64_t kMaxKeptBytes = 64 << 20;
constexpr size_t kMaxLacking = 32;            // reported at a time
constexpr size_t kMaxRecordBytes = 16 << 20;  // in a checkpoint

bool is_for_coordinators(const Message& message) {
  return std::holds_alternative<membership::Announcement>(message) ||
         std::holds_alternative<membership::Overtaken>(message) ||
         std::holds_alternative<membership::Audit>(message);
}

membership::Options times_of(double timeout_s) {
  membership::Options options;
  options.timeout_s = timeout_s;
  return options;
}

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
      fetcher_(courier, retry_s_, settings_.keeper),
      checkpoint_(settings_.checkpoint),
      checkpoint_records_(settings_.records),
      kept_(kMaxKeptBytes) {}

void Follower::Impl::start() {
  statements_ =
      courier_.subscribe("", serve::kCoordinatorsTopic,
                         [this](const std::string&, const Bytes& bytes) { receive(bytes); });
  statements_of_others_ = courier_.subscribe("", serve::kMembersTopic,
                                             [this](const std::string& from, const Bytes& bytes) {
                                               fetcher_.heard(from);
                                               receive_from_member(bytes);
                                             });
  read_ledger();
  sender_ = std::thread([this] { send_loop(); });
}

void Follower::Impl::stop_sending() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    wake_.notify_all();
  }
  if (sender_.joinable()) sender_.join();
}

void Follower::Impl::close() {
  stop_sending();
  ledger_.reset();
  statements_.reset();
  statements_of_others_.reset();
}

void Follower::Impl::read_ledger() {
  ledger_.reset();
  {
    const std::lock_guard lock(mutex_);
    read_ = 0;
    joiner_ = {};
    end_.reset();
  }
  ledger_ = courier_.read(serve::kLedgerStream, 1, [this](uint64_t place, Bytes message) {
    take_record(place, std::move(message));
  });
  ask_for_end();
}

void Follower::Impl::ask_for_end() {
  const std::weak_ptr<Impl> weak = weak_from_this();
  courier_.last(serve::kLedgerStream, [weak](const Result<uint64_t>& last) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    self->asks_for_end_ = !last;
    if (last) self->end_ = *last;
    self->changed_.notify_all();
  });
}

void Follower::Impl::send_loop() {
  Lock lock(mutex_);
  while (!closing_) {
    wake_.wait_for(lock, std::chrono::duration<double>(idle_s()),
                   [this] { return sends_now_ || closing_; });
    if (closing_) return;
    sends_now_ = false;
    const bool reads_again = std::exchange(reads_again_, false);
    const bool asks_for_end = std::exchange(asks_for_end_, false);
    const std::vector<Message> messages = repeated();
    store_again(lock);
    lock.unlock();
    if (reads_again) {
      read_ledger();
    } else if (asks_for_end) {
      ask_for_end();
    }
    send(messages);
    lock.lock();
  }
}

// The time until the next report, or until something is requested from the store or stored again.
double Follower::Impl::idle_s() const {
  const double now = monotonic_seconds();
  double seconds = asks_for_end_ ? retry_s_ : times_.report_s();
  for (const auto& [name, offered] : offers_) {
    if (offered.stored || offered.storing) continue;
    seconds = std::min(seconds, std::max(0.0, offered.store_at - now));
  }
  return seconds;
}

// Everything that the coordinator should know and may not have received.
std::vector<Message> Follower::Impl::repeated() {
  std::vector<Message> messages;
  if (settings_.audits) return messages;
  const membership::Member* member = own();
  if (member == nullptr || is_gone(member->phase)) {
    messages.emplace_back(
        membership::JoinRequest{signer_.key(), position(), settings_.down_bytes_s});
    return messages;
  }
  messages.emplace_back(membership::Report{*own_id(), position(), digest_});
  for (const auto& [name, offered] : offers_) {
    if (name.first >= view_.state().next_round) continue;
    if (offered.stored) {
      messages.emplace_back(offered.offer);
    } else if (!offered.blob->empty()) {
      messages.emplace_back(membership::Announcement{offered.offer});
    }
  }
  if (snapshot_) messages.emplace_back(*snapshot_);
  const std::vector<transport::BlobId> lacking = fetcher_.lacking();
  for (size_t i = 0; i < std::min(lacking.size(), kMaxLacking); ++i) {
    messages.emplace_back(membership::Lacking{lacking[i].name});
  }
  return messages;
}

void Follower::Impl::send(const std::vector<Message>& messages) {
  const std::lock_guard lock(sending_);
  for (const Message& message : messages) {
    courier_.publish(
        is_for_coordinators(message) ? serve::kAnnouncementsTopic : serve::kMembersTopic,
        membership::encode_statement(
            {settings_.founding.run, signer_.key(), numbers_.next(), message}, signer_));
  }
}

// Reports once per round.
void Follower::Impl::trained(int64_t steps, double loss_sum, int64_t tokens) {
  double sum = 0;
  int64_t over = 0;
  {
    const std::lock_guard lock(mutex_);
    loss_sum_ += loss_sum;
    loss_tokens_ += tokens;
    if (!plan_.ends_after(static_cast<uint64_t>(steps))) return;
    sum = std::exchange(loss_sum_, 0);
    over = std::exchange(loss_tokens_, 0);
  }
  evaluated(steps, membership::Loss::kTraining, sum, over);
}

void Follower::Impl::evaluated(int64_t steps, const std::string& set, double loss_sum,
                               int64_t tokens) {
  Lock lock(mutex_);
  const auto id = own_id();
  lock.unlock();
  if (!id || tokens == 0) return;
  const double mean = loss_sum / static_cast<double>(tokens);
  if (!std::isfinite(mean) || mean < 0) return;
  send({membership::Loss{*id, static_cast<uint64_t>(steps), set, mean,
                         static_cast<uint64_t>(tokens)}});
}

void Follower::Impl::offer(uint64_t round, uint32_t fragment, Bytes payload, double seconds) {
  const auto blob = std::make_shared<const Bytes>(std::move(payload));
  const transport::BlobId id = transport::blob_id(*blob);
  membership::Offer offer;
  {
    const std::lock_guard lock(mutex_);
    const LedgerRound* entry = view_.round(round);
    const auto self = own_id();
    if (entry == nullptr || !self) return;
    if (entry->closing && (blob->empty() || !may_count(round, fragment))) return;
    fetcher_.keep(id, blob);
    if (!blob->empty()) kept_.keep(round, id.name, blob);
    offer = {*self, round, entry->opening.epoch, fragment, id.name, id.bytes, seconds};
    offers_[{round, fragment}] = {offer, blob, false, true};
  }
  // Nobody can read the payload before this is on its way: whoever copies it comes second.
  if (!blob->empty()) send({membership::Announcement{offer}});
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
    // A time-out has already waited; a full disk will still be full a moment later.
    const bool refused = !stored && stored.error().kind != FailureKind::kDeadline;
    offered->second.store_at = refused ? monotonic_seconds() + self->retry_s_ : 0;
    self->send_soon();
  });
}

// Stores again what the store did not accept.
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

void Follower::Impl::decline_snapshot() {
  const std::lock_guard lock(mutex_);
  snapshot_asked_ = false;
}

void Follower::Impl::store_snapshot(int64_t steps, Bytes content) {
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
    if (!self->view_.has({ready.snapshot.sequence, ready.record}))
      return;  // the history has changed
    self->snapshot_ = ready;
    self->send_soon();
  });
}

std::map<uint64_t, Bytes> Follower::Impl::last_records() const {
  const std::lock_guard lock(mutex_);
  return view_.last_records(kMaxRecordBytes);
}

// The network delivers one participant's messages in order, so once it has stored something sent
// later, it has received these.
void Follower::Impl::announce_leaving(double seconds) {
  stop_sending();
  Lock lock(mutex_);
  const auto id = own_id();
  if (!id || refused_) return;
  const std::vector<Message> messages{membership::Report{*id, position(), digest_},
                                      membership::LeaveNotice{*id}};
  lock.unlock();
  send(messages);
  const auto stored = std::make_shared<std::promise<void>>();
  std::future<void> done = stored->get_future();
  courier_.put(std::make_shared<const Bytes>(), transport::Priority::kRound,
               [stored](const Result<void>&) { stored->set_value(); });
  if (!courier_.connected()) return;
  done.wait_for(std::chrono::duration<double>(seconds));
}

}  // namespace thinwire::member
