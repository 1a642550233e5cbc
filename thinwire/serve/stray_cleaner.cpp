#include "thinwire/serve/stray_cleaner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/nkey.h"
#include "thinwire/base/units.h"
#include "thinwire/serve/payload_filter.h"

namespace thinwire::serve {
namespace {

constexpr uint64_t kSnapshots = 4;

}  // namespace

uint64_t StrayAllowance::in(uint64_t rounds) const {
  return (rounds + open_rounds) * kMaxOffers * round_chunks + kSnapshots * snapshot_chunks;
}

void StrayChunks::begin(uint64_t next_round) {
  first_ = !now_;
  // The ledger may have lost rounds.
  before_ = std::min(now_.value_or(next_round), next_round);
  now_ = next_round;
}

StrayChunks::Finding StrayChunks::listed(int member,
                                         const std::vector<transport::StoredBlob>& strays,
                                         const StrayAllowance& allowance) {
  const uint64_t now = now_.value_or(0);
  Member& known = members_[member];
  Finding finding;
  finding.allowed = known.allowed;
  known.allowed = allowance.in(now - before_);
  std::map<Sha256, Known> listed;
  uint64_t fresh = 0;
  for (const auto& [name, chunks] : strays) {
    const auto found = known.strays.find(name);
    const Known before = found == known.strays.end() ? Known{now} : found->second;
    const uint64_t more = chunks - std::min(chunks, before.chunks);
    const uint64_t since = std::min(before.since, now);
    fresh += more;
    finding.appeared += std::min(before.fresh, chunks);
    listed.emplace(name, Known{since, chunks, first_ ? 0 : more});
    if (now - since >= kSpentRounds) finding.spent.push_back(name);
  }
  known.strays = std::move(listed);
  finding.suspicious = !first_ && fresh > known.allowed;
  return finding;
}

bool ListingSchedule::is_due(uint64_t unused, uint64_t more, uint64_t next_round, double now,
                             double period_s) const {
  if (!at_ || again_) return true;
  if (unused > unused_ + more) return true;
  return next_round >= round_ + kSpentRounds && now >= *at_ + period_s;
}

void ListingSchedule::listed(uint64_t unused, uint64_t next_round, double now, bool again) {
  unused_ = unused;
  round_ = next_round;
  at_ = now;
  again_ = again;
}

namespace {

constexpr size_t kDropsAtOnce = 1000;
constexpr double kListSeconds =
    1;  // between members' lists on average: the server searches for them

}  // namespace

StrayCleaner::StrayCleaner(transport::Courier& courier, std::shared_ptr<Inbox> inbox,
                           const StoreCleaner& store, const membership::Options& options,
                           uint64_t overlap, uint64_t snapshot_bytes)
    : courier_(courier),
      inbox_(std::move(inbox)),
      store_(store),
      snapshot_bytes_(snapshot_bytes),
      poll_s_(options.report_s()),
      timeout_s_(options.timeout_s) {
  allowance_.open_rounds = overlap + 1;
}

void StrayCleaner::note_sizes(const membership::State& state) {
  for (const membership::Opening& opening : state.open) {
    uint64_t chunks = 0;
    for (const auto& operation : opening.operations) {
      chunks += transport::chunks_in(operation.max_bytes);
    }
    allowance_.round_chunks = std::max(allowance_.round_chunks, chunks);
  }
  // A snapshot holds the weights and the state that replicas share.
  uint64_t bytes = state.founding ? 2 * state.founding->weights_bytes : 0;
  bytes = std::max(bytes, snapshot_bytes_);
  for (const auto& [sequence, held] : state.snapshots) bytes = std::max(bytes, held.bytes);
  allowance_.snapshot_chunks = transport::chunks_in(bytes);
}

void StrayCleaner::tick(const membership::State& state, double now) {
  now_ = now;
  if (asked_ || now < next_poll_ || !store_.is_complete()) return;
  next_poll_ = now + poll_s_;
  note_sizes(state);
  asked_ = true;
  courier_.count(
      [inbox = inbox_](Result<uint64_t> chunks) { inbox->add(CountedStore{std::move(chunks)}); });
}

void StrayCleaner::take(const CountedStore& counted, const membership::State& state) {
  asked_ = false;
  if (!counted.chunks) return;
  unused_ = *counted.chunks - std::min<uint64_t>(*counted.chunks, store_.used());
  // What all are just storing, and as much as one of them may have.
  const size_t members = state.members.size();
  const uint64_t more =
      members * allowance_.open_rounds * allowance_.round_chunks + allowance_.in(1);
  const double period_s = std::max(timeout_s_, kListSeconds * static_cast<double>(members));
  if (!schedule_.is_due(unused_, more, state.next_round, now_, period_s)) return;
  to_list_.clear();
  for (size_t id = 0; id < state.members.size(); ++id) to_list_.push_back(static_cast<int>(id));
  again_ = false;
  strays_.begin(state.next_round);
  list_next(state);
}

void StrayCleaner::list_next(const membership::State& state) {
  if (to_list_.empty()) return schedule_.listed(unused_, state.next_round, now_, again_);
  const int member = to_list_.front();
  to_list_.pop_front();
  if (!state.knows(member)) return list_next(state);
  asked_ = true;
  courier_.list(holder(state, member),
                [inbox = inbox_, member](Result<std::vector<transport::StoredBlob>> blobs) {
                  inbox->add(ListedMember{member, std::move(blobs)});
                });
}

std::optional<membership::Misconduct> StrayCleaner::take(const ListedMember& listed,
                                                         const membership::State& state) {
  asked_ = false;
  // What was not listed, or cannot be told from what is needed now, is listed another time.
  std::optional<membership::Misconduct> offence;
  if (listed.blobs && state.knows(listed.member) && store_.is_complete()) {
    const std::string owner = holder(state, listed.member);
    const Sha256 empty = sha256({});  // all empty payloads are this chunk
    std::vector<transport::StoredBlob> strays;
    for (const auto& [name, chunks] : *listed.blobs) {
      const uint64_t used = name == empty ? 1 : store_.used({owner, name});
      if (chunks > used) strays.push_back({name, chunks - used});
    }
    auto found = strays_.listed(listed.member, strays, allowance_);
    std::erase_if(found.spent, [&](const Sha256& name) { return store_.used({owner, name}) > 0; });
    for (size_t i = 0; i < std::min(found.spent.size(), kDropsAtOnce); ++i) {
      courier_.drop(found.spent[i], owner, [](const Result<void>&) {});
    }
    again_ = again_ || found.suspicious || found.spent.size() > kDropsAtOnce;
    if (found.too_many()) {
      offence = membership::Misconduct{
          listed.member, fmt::format("it has stored {} of up to 256 KiB that belong to no payload "
                                     "and no snapshot; up to {} may be",
                                     counted(found.appeared, "chunk"), found.allowed)};
    }
  }
  list_next(state);
  return offence;
}

std::string StrayCleaner::holder(const membership::State& state, int member) const {
  return participant_name(state.members[static_cast<size_t>(member)].key);
}

}  // namespace thinwire::serve
