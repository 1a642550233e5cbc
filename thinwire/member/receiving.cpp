// What a follower receives: records, and messages of coordinators and other members.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/member/follower_impl.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/membership/record_parts.h"
#include "thinwire/serve/coordinator_host.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {
namespace {

using membership::Message;

constexpr size_t kRoundsNoted = 64;  // closed recently, and sums of them

// Of the messages in a supply, without their lengths: the statement around them takes less than the
// rest.
constexpr size_t kMaxSupplied = membership::kMaxRecordMessage;
constexpr size_t kMaxSuppliedAtOnce = 64;  // messages
static_assert(kMaxSupplied + sizeof(uint32_t) * kMaxSuppliedAtOnce + 512 <=
              transport::kMaxMessageBytes);

// In as few statements as they fit into.
std::vector<Message> supplies(int member, const std::vector<Bytes>& records) {
  std::vector<Message> messages;
  size_t room = 0;
  for (const Bytes& record : records) {
    for (Bytes& message : membership::messages_of(record)) {
      const bool fits =
          !messages.empty() && message.size() <= room &&
          std::get<membership::Supply>(messages.back()).messages.size() < kMaxSuppliedAtOnce;
      if (!fits) {
        messages.emplace_back(membership::Supply{member, {}});
        room = kMaxSupplied;
      }
      room -= message.size();
      std::get<membership::Supply>(messages.back()).messages.push_back(std::move(message));
    }
  }
  return messages;
}

// Others' offers are only displayed and decide nothing, so their signatures are not verified.
bool unchecked(const PublicKey&, std::span<const uint8_t>, const Signature&) { return true; }

}  // namespace

// Payloads are fetched while the worker may still be computing a later round. When it waits for
// them, its next payload is on its way up, and requests would queue behind that.
void Follower::Impl::take_record(uint64_t place, Bytes message) {
  Lock lock(mutex_);
  read_ = place;
  changed_.notify_all();
  const std::optional<Bytes> record = joiner_.take(std::move(message));
  const LedgerView::Taken taken = record ? view_.take(*record) : LedgerView::Taken::kIgnored;
  if (taken == LedgerView::Taken::kIgnored) return;
  if (taken == LedgerView::Taken::kForked) {
    const LedgerView::Fork& fork = view_.fork();
    starts_over_ =
        fmt::format("the ledger's history changed: the coordinator {} signed another record {}",
                    transport::key_id(fork.writer), fork.sequence);
    reads_again_ = true;
    send_soon();
    return;
  }
  follow_own_phase();
  drop_spent_offers();
  const membership::Member* member = own();
  if (member == nullptr || member->phase != membership::Phase::kActive) send_soon();
  const auto read = membership::decode_record(*record);
  if (read && read->closing && has_read_all()) {
    closed_at_[read->closing->round] = monotonic_seconds();
    if (closed_at_.size() > kRoundsNoted) closed_at_.erase(closed_at_.begin());
  }
  if (read) start_early(lock, closed_by(*read));
}

void Follower::Impl::start_early(Lock& lock, const Holders& holders) {
  for (const auto& [id, names] : holders) early_.insert(id);
  lock.unlock();
  for (const auto& [id, names] : holders) fetcher_.start(id, names, transport::Priority::kRound);
  lock.lock();
  for (const auto& [id, names] : holders) {
    if (!early_.contains(id)) fetcher_.forget(id);  // the worker was quicker, or the replica ended
  }
}

bool Follower::Impl::has_begun(uint64_t round) const {
  const membership::Member* member = own();
  return has_replica_ && member != nullptr && member->phase == membership::Phase::kActive &&
         round < handed_out_;
}

Follower::Impl::Holders Follower::Impl::closed_by(const membership::Record& record) const {
  if (!record.closing || !has_begun(record.closing->round)) return {};
  Holders closed;
  for (const Commit& commit : record.closing->commits) {
    if (forms_sum(commit) && !is_left_to_members(commit)) continue;
    for (auto& [id, names] : holders_of(commit)) closed[id] = std::move(names);
  }
  return closed;
}

bool Follower::Impl::is_left_to_members(const Commit& commit) const {
  const auto said = find_sum(serve::digest_of(serve::summed(commit)));
  return said != sums_said_.end() && said->sum.bytes == 0 && !said->holder.empty();
}

bool Follower::Impl::may_count(uint64_t round, uint32_t fragment) const {
  const membership::State& state = view_.state();
  if (state.opening(round) != nullptr || round >= state.next_round) return true;
  const auto self = own_id();
  return settings_.late == config::LateContributions::kCount && self &&
         state.overdue.contains({*self, round, fragment});
}

void Follower::Impl::drop_spent_offers() {
  const membership::State& state = view_.state();
  const uint64_t front = state.open.empty() ? state.next_round : state.open.front().round;
  std::erase_if(offers_, [&](const auto& offer) {
    return !may_count(offer.first.first, offer.first.second);
  });
  std::erase_if(offers_received_, [&](const auto& round) { return round.first < front; });
  drop_kept_payloads();
  if (!snapshot_) return;
  const auto held = state.snapshots.find(snapshot_->snapshot.sequence);
  const bool known =
      held != state.snapshots.end() && held->second.holders.contains(snapshot_->snapshot.member);
  const bool obsolete = snapshot_->snapshot.sequence < state.replayable_from();
  if (known || obsolete) snapshot_.reset();
}

// Drops payloads that are no longer replayed.
void Follower::Impl::drop_kept_payloads() {
  const membership::State& state = view_.state();
  while (const auto round = kept_.oldest_round()) {
    const LedgerRound* entry = view_.round(*round);
    const bool long_closed = entry == nullptr && *round < state.next_round;
    const bool covered =
        entry != nullptr && entry->closing && entry->closed_at <= state.replayable_from();
    if (!long_closed && !covered) return;
    kept_.forget_before(*round + 1);
  }
}

// Offers and requests for lost payloads, from other members.
void Follower::Impl::receive_from_member(const Bytes& bytes) {
  auto statement = membership::decode_statement(bytes, settings_.founding.run, unchecked);
  if (!statement) return;
  if (const auto* offer = std::get_if<membership::Offer>(&statement->message)) {
    const std::lock_guard lock(mutex_);
    if (offer->round + 1 < view_.state().next_round + 8) {
      ++offers_received_[offer->round][offer->member];
    }
  } else if (const auto* lacking = std::get_if<membership::Lacking>(&statement->message)) {
    {
      const std::lock_guard lock(mutex_);
      if (!view_.state().find(statement->author) || !kept_.find(lacking->payload)) return;
    }
    if (!membership::decode_statement(bytes, settings_.founding.run, verify)) return;
    store_lost_again(lacking->payload);
  }
}

// Stores a payload again that the store has lost, at most once per settle_s, however often it is
// requested.
void Follower::Impl::store_lost_again(const Sha256& payload) {
  std::shared_ptr<const Bytes> blob;
  {
    const std::lock_guard lock(mutex_);
    const double now = monotonic_seconds();
    std::erase_if(stored_again_at_,
                  [&](const auto& one) { return now - one.second >= times_.settle_s(); });
    blob = kept_.find(payload);
    if (blob == nullptr || !stored_again_at_.emplace(payload, now).second) return;
  }
  courier_.put(blob, transport::Priority::kCatchUp, [](const Result<void>&) {});
}

void Follower::Impl::receive(const Bytes& bytes) {
  const auto statement = membership::decode_statement(bytes, settings_.founding.run, verify);
  if (!statement) return;
  const auto* overtaken = std::get_if<membership::Overtaken>(&statement->message);
  const bool lacks = std::holds_alternative<membership::Lacking>(statement->message);
  if (!lacks && overtaken == nullptr && !membership::is_from_coordinator(statement->message))
    return;
  if (!std::ranges::binary_search(settings_.founding.coordinators, statement->author)) return;
  if (overtaken != nullptr) return go_on_from(*overtaken);
  if (!is_new(*statement, bytes)) return;
  note_coordinator(statement->message);
  if (const auto* sum = std::get_if<membership::Sum>(&statement->message)) {
    take_sum(*sum, statement->author);
  } else {
    answer(statement->message);
  }
}

void Follower::Impl::note_coordinator(const Message& message) {
  const std::lock_guard lock(mutex_);
  const auto* waiting = std::get_if<membership::Waiting>(&message);
  if (waiting != nullptr) coordinator_waits_ = waiting->text;
  if (waiting != nullptr || coordinator_heard_) coordinator_heard_ = monotonic_seconds();
}

// Tells the author of one that is dropped because something later has arrived: a coordinator whose
// clock was ahead said it, or this one was only held up.
bool Follower::Impl::is_new(const membership::Statement& statement, const Bytes& bytes) {
  std::optional<membership::Overtaken> overtaken;
  bool first = false, was_ahead = false;
  {
    const std::lock_guard lock(mutex_);
    if (received_.is_new(statement.author, statement.number, bytes)) return true;
    overtaken = received_.overtaken(statement.author, statement.number);
    if (!overtaken) return false;
    const double now = monotonic_seconds();
    was_ahead = received_.is_ahead(statement.author, unix_seconds());
    const auto [told, is_new] = told_overtaken_.try_emplace(was_ahead, now);
    if (!is_new && now - told->second < times_.report_s()) return false;
    told->second = now;
    first = is_new;
  }
  send({*overtaken});
  if (first && settings_.hooks.message) {
    settings_.hooks.message(
        was_ahead
            ? "what the coordinator says is dropped until it goes on from what was said before, "
              "when its clock was ahead; it is told so"
            : "something that the coordinator said was dropped, because what it said later arrived "
              "first: it was held up, or its machine's clock was set back; it is told so");
  }
  return false;
}

// The process before this one had a clock that was ahead.
void Follower::Impl::go_on_from(const membership::Overtaken& overtaken) {
  const auto later = membership::decode_statement(overtaken.later, settings_.founding.run, verify);
  if (!later || later->author != signer_.key()) return;
  {
    const std::lock_guard lock(sending_);
    if (!numbers_.go_on_from(later->number)) return;
  }
  {
    const std::lock_guard lock(mutex_);
    send_soon();
  }
  if (!settings_.hooks.message) return;
  settings_.hooks.message(
      "the coordinator dropped what this member said: it said something before when its clock was "
      "ahead. It goes on from there");
}

void Follower::Impl::note_sum(const membership::Sum& sum, std::string holder) {
  sums_said_.push_back({sum, std::move(holder)});
  if (sums_said_.size() > kRoundsNoted) sums_said_.pop_front();
}

// It is fetched as payloads are: while the worker may still be computing a later round.
void Follower::Impl::take_sum(const membership::Sum& sum, const PublicKey& author) {
  Lock lock(mutex_);
  if (!settings_.sums) return;
  if (find_sum(sum.contributions) != sums_said_.end()) return;  // known, or too late
  note_sum(sum, transport::participant_name(author));
  changed_.notify_all();
  if (!has_begun(sum.round)) return;
  if (sum.bytes > 0) {
    const SumSaid& said = sums_said_.back();
    return start_early(lock, {{said.id(), {said.holder}}});
  }
  const LedgerRound* const round = view_.round(sum.round);
  if (round == nullptr || !round->closing) return;  // its record is on its way
  for (const Commit& commit : round->closing->commits) {
    if (is_left_to_members(commit)) return start_early(lock, holders_of(commit));
  }
}

// Of those that were read, or that the checkpoint has; at least the first.
std::vector<Bytes> Follower::Impl::records_from(uint64_t first) const {
  if (first <= view_.state().position.sequence) return view_.records_from(first, kMaxSupplied);
  std::vector<Bytes> records;
  size_t bytes = 0;
  for (auto at = checkpoint_records_.lower_bound(first); at != checkpoint_records_.end(); ++at) {
    bytes += at->second.size();
    if (bytes > kMaxSupplied && !records.empty()) break;
    records.push_back(at->second);
  }
  return records;
}

void Follower::Impl::answer(const Message& message) {
  Lock lock(mutex_);
  if (const auto* refuse = std::get_if<membership::Refuse>(&message)) {
    if (refuse->key != signer_.key()) return;
    if (own_id()) {
      last_refusal_ = refuse->why;
    } else {
      refused_ = refuse->why;
    }
    if (settings_.audits) follow_as_auditor();
    changed_.notify_all();
    lock.unlock();
    if (settings_.hooks.message) settings_.hooks.message("the coordinator refused: " + refuse->why);
    return;
  }
  const auto id = own_id();
  if (const auto* records = std::get_if<membership::AskRecords>(&message)) {
    if (records->member != id.value_or(membership::AskRecords::kStrangers)) return;
    const auto kept = records_from(records->first);
    lock.unlock();
    return send(supplies(records->member, kept));
  }
  if (!id) return;
  if (const auto* ask = std::get_if<membership::AskSnapshot>(&message)) {
    // It replaces one that is still announced, whose digest was not agreed on.
    if (ask->member == *id) snapshot_asked_ = true;
  } else if (const auto* lacking = std::get_if<membership::Lacking>(&message)) {
    lock.unlock();
    store_lost_again(lacking->payload);
  }
}

}  // namespace thinwire::member
