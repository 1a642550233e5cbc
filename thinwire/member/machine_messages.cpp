// What a member says and hears: reports, offers, losses and snapshots; coordinators' sums,
// questions and refusals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "thinwire/base/nkey.h"
#include "thinwire/member/member_machine.h"
#include "thinwire/membership/ledger.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::member {
namespace {

using membership::Message;

constexpr size_t kMaxLacking = 32;  // reported at a time
constexpr size_t kSumsNoted = 64;

// The messages in a supply take so much, without their lengths: the statement around them takes
// less than the rest.
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

}  // namespace

// --- reports

void MemberMachine::tick(double now, const std::vector<transport::BlobId>& lacking) {
  acts_now_ = false;
  const bool asks_for_end = std::exchange(asks_for_end_, false);
  if (std::exchange(reads_again_, false)) {
    act(ReadAgain{});
  } else if (asks_for_end) {
    act(AskEnd{});
  }
  say_again(lacking);
  store_again(now);
}

// The time until the next report, or until something is requested from the store or stored again.
double MemberMachine::idle_s(double now) const {
  double seconds = asks_for_end_ ? retry_s_ : times_.report_s();
  for (const auto& [name, offered] : offers_) {
    if (offered.stored || offered.storing) continue;
    seconds = std::min(seconds, std::max(0.0, offered.store_at - now));
  }
  return seconds;
}

void MemberMachine::say_again(const std::vector<transport::BlobId>& lacking) {
  if (settings_.audits) return;
  const membership::Member* member = own();
  if (member == nullptr || is_gone(member->phase)) {
    return say(
        membership::JoinRequest{self_, position(), settings_.down_bytes_s, settings_.own_rows});
  }
  say(membership::Report{*own_id(), position(), digest_});
  for (const auto& [name, offered] : offers_) {
    if (name.first >= view_.state().next_round) continue;
    if (offered.stored) {
      say(offered.offer);
    } else if (!offered.blob->empty()) {
      say(membership::Announcement{offered.offer});
    }
  }
  if (snapshot_) say(*snapshot_);
  if (undecided_ && undecided_->step <= view_.state().evaluated.step) undecided_.reset();
  if (undecided_) say(*undecided_);
  for (size_t i = 0; i < std::min(lacking.size(), kMaxLacking); ++i) {
    say(membership::Lacking{lacking[i].name});
  }
}

void MemberMachine::store_again(double now) {
  for (auto& [name, offered] : offers_) {
    if (offered.stored || offered.storing || offered.store_at > now) continue;
    offered.storing = true;
    act(StoreOffer{name, offered.blob});
  }
}

std::vector<Message> MemberMachine::farewell() {
  const auto id = own_id();
  if (!id || refused_) return {};
  return {membership::Report{*id, position(), digest_}, membership::LeaveNotice{*id}};
}

// Reports once per round.
void MemberMachine::trained(int64_t steps, double loss_sum, int64_t tokens) {
  loss_sum_ += loss_sum;
  loss_tokens_ += tokens;
  if (!plan_.ends_after(static_cast<uint64_t>(steps))) return;
  evaluated(steps, membership::Loss::kTraining, std::exchange(loss_sum_, 0),
            std::exchange(loss_tokens_, 0));
}

void MemberMachine::evaluated(int64_t steps, const std::string& set, double loss_sum,
                              int64_t tokens) {
  const auto id = own_id();
  const bool decides = !settings_.watch.empty() && set == settings_.watch;
  const bool is_training = set == membership::Loss::kTraining;
  if (!id || (tokens == 0 && is_training) || !std::isfinite(loss_sum)) return;
  membership::Loss loss{*id, static_cast<uint64_t>(steps), set, loss_sum,
                        static_cast<uint64_t>(tokens)};
  if (decides) undecided_ = loss;
  say(std::move(loss));
}

// --- offers

// Nobody can read the payload before its announcement is on its way: whoever copies it comes
// second.
bool MemberMachine::offer(uint64_t round, uint32_t fragment, const transport::BlobId& id,
                          std::shared_ptr<const Bytes> payload, const membership::Spent& spent) {
  const LedgerRound* entry = view_.round(round);
  const auto self = own_id();
  if (entry == nullptr || !self) return false;
  if (entry->closing && (payload->empty() || !may_count(round, fragment))) return false;
  const membership::Offer offer{*self,    round, entry->opening.epoch, fragment, id.name,
                                id.bytes, spent};
  if (!payload->empty()) {
    kept_.keep(round, id.name, payload);
    say(membership::Announcement{offer});
  }
  offers_[{round, fragment}] = {offer, payload, false, true};
  act(StoreOffer{{round, fragment}, std::move(payload)});
  return true;
}

// A time-out has already waited; a full disk will still be full a moment later.
void MemberMachine::stored(OfferName name, std::optional<FailureKind> refused, double now) {
  const auto offered = offers_.find(name);
  if (offered == offers_.end()) return;
  offered->second.storing = false;
  offered->second.stored = !refused;
  const bool later = refused && *refused != FailureKind::kDeadline;
  offered->second.store_at = later ? now + retry_s_ : 0;
  act_soon();
}

void MemberMachine::note_offer(const membership::Offer& offer) {
  if (offer.round + 1 < view_.state().next_round + 8) ++offers_received_[offer.round][offer.member];
}

bool MemberMachine::can_restore(const PublicKey& author, const Sha256& payload) const {
  return view_.state().find(author) && kept_.find(payload) != nullptr;
}

void MemberMachine::restore(const Sha256& payload, double now) {
  std::erase_if(restored_at_,
                [&](const auto& one) { return now - one.second >= times_.settle_s(); });
  auto blob = kept_.find(payload);
  if (blob == nullptr || !restored_at_.emplace(payload, now).second) return;
  act(StoreAgain{std::move(blob)});
}

// --- coordinators

void MemberMachine::receive(const membership::Statement& statement, std::span<const uint8_t> bytes,
                            double now, double unix_now) {
  if (!is_new(statement, bytes, now, unix_now)) return;
  note_coordinator(statement.message, now);
  const auto id = own_id();
  if (const auto* sum = std::get_if<membership::Sum>(&statement.message)) {
    take_sum(*sum, statement.author);
  } else if (const auto* refuse = std::get_if<membership::Refuse>(&statement.message)) {
    take_refusal(*refuse);
  } else if (const auto* ask = std::get_if<membership::AskRecords>(&statement.message)) {
    if (ask->member != id.value_or(membership::AskRecords::kStrangers)) return;
    for (Message& supply : supplies(ask->member, records_from(ask->first))) say(std::move(supply));
  } else if (const auto* snapshot = std::get_if<membership::AskSnapshot>(&statement.message)) {
    // It replaces one that is still announced, whose digest was not agreed on.
    if (snapshot->member == id) snapshot_asked_ = true;
  } else if (const auto* lacking = std::get_if<membership::Lacking>(&statement.message)) {
    if (id) restore(lacking->payload, now);
  }
}

void MemberMachine::deny(std::string why) {
  if (!refused_) starts_over_ = refused_ = std::move(why);
}

void MemberMachine::take_refusal(const membership::Refuse& refuse) {
  if (refuse.key != self_) return;
  if (own_id()) {
    last_refusal_ = refuse.why;
  } else {
    refused_ = refuse.why;
  }
  if (settings_.audits) follow_as_auditor();
  act(Tell{"the coordinator refused: " + refuse.why});
}

void MemberMachine::note_coordinator(const Message& message, double now) {
  const auto* waiting = std::get_if<membership::Waiting>(&message);
  if (waiting != nullptr) coordinator_waits_ = waiting->text;
  if (waiting != nullptr || coordinator_heard_) coordinator_heard_ = now;
}

// Tells the author of one that is dropped because something later has arrived: a coordinator whose
// clock was ahead said it, or this one was only held up.
bool MemberMachine::is_new(const membership::Statement& statement, std::span<const uint8_t> bytes,
                           double now, double unix_now) {
  if (received_.is_new(statement.author, statement.number, bytes)) return true;
  auto overtaken = received_.overtaken(statement.author, statement.number);
  if (!overtaken) return false;
  const bool was_ahead = received_.is_ahead(statement.author, unix_now);
  const auto [told, first] = told_overtaken_.try_emplace(was_ahead, now);
  if (!first && now - told->second < times_.report_s()) return false;
  told->second = now;
  say(*std::move(overtaken));
  if (!first) return false;
  act(Tell{was_ahead
               ? "what the coordinator says is dropped until it goes on from what was said before, "
                 "when its clock was ahead; it is told so"
               : "something that the coordinator said was dropped, because what it said later "
                 "arrived first: it was held up, or its machine's clock was set back; it is told "
                 "so"});
  return false;
}

std::vector<Bytes> MemberMachine::records_from(uint64_t first) const {
  if (first <= view_.state().position.sequence) return view_.records_from(first, kMaxSupplied);
  std::vector<Bytes> records;
  size_t bytes = 0;
  for (auto at = settings_.records.lower_bound(first); at != settings_.records.end(); ++at) {
    bytes += at->second.size();
    if (bytes > kMaxSupplied && !records.empty()) break;
    records.push_back(at->second);
  }
  return records;
}

// --- sums that the coordinator forms

const MemberMachine::SumSaid* MemberMachine::sum_said(const Sha256& contributions) const {
  const auto found = std::ranges::find(sums_said_, contributions,
                                       [](const SumSaid& one) { return one.sum.contributions; });
  return found == sums_said_.end() ? nullptr : &*found;
}

double MemberMachine::sum_is_due(uint64_t round) const {
  const auto closed = closed_at_.find(round);
  return closed == closed_at_.end() ? 0 : closed->second + times_.absent_s();
}

void MemberMachine::form_sum(const Sha256& contributions) {
  membership::Sum own;
  own.contributions = contributions;
  note_sum(own, "");
}

void MemberMachine::note_sum(const membership::Sum& sum, std::string holder) {
  sums_said_.push_back({sum, std::move(holder)});
  if (sums_said_.size() > kSumsNoted) sums_said_.pop_front();
}

bool MemberMachine::is_left_to_members(const Commit& commit) const {
  const SumSaid* said = sum_said(sync::digest_of(sync::summed(commit)));
  return said != nullptr && said->sum.bytes == 0 && !said->holder.empty();
}

// It is fetched as payloads are: while the worker may still be computing a later round.
void MemberMachine::take_sum(const membership::Sum& sum, const PublicKey& author) {
  if (!settings_.sums || sum_said(sum.contributions) != nullptr) return;  // known, or too late
  note_sum(sum, participant_name(author));
  if (!has_begun(sum.round)) return;
  if (sum.bytes > 0) return fetch_early({{sums_said_.back().id(), {sums_said_.back().holder}}});
  const membership::Closing* closing = this->closing(sum.round);
  if (closing == nullptr) return;  // its record is on its way
  for (const Commit& commit : closing->commits) {
    if (is_left_to_members(commit)) return fetch_early(holders_of(commit));
  }
}

}  // namespace thinwire::member
