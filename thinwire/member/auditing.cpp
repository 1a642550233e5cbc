// What a follower does for audits (docs/audits.md).
#include <fmt/format.h>

#include <utility>

#include "thinwire/member/follower_impl.h"
#include "thinwire/transport/nats/nkey.h"

namespace thinwire::member {

// An auditor is no member, so nobody tells it to start over.
void Follower::Impl::follow_as_auditor() {
  if (refused_ && !starts_over_) starts_over_ = refused_;
  if (!has_replica_ || starts_over_) return;
  start_over_if_reopened();
  const membership::State& state = view_.state();
  for (const auto& [round, digest] : digests_) {
    const auto agreed = state.agreed_digests.find(round);
    if (agreed == state.agreed_digests.end() || agreed->second == digest) continue;
    starts_over_ = fmt::format("its weights after round {} differ from the members'", round);
    return;
  }
  const uint64_t needed = plan_.settled_rounds(static_cast<uint64_t>(completed_));
  if (needed >= state.next_round) return;
  const LedgerRound* round = view_.round(needed);
  const bool is_covered =
      round == nullptr || (round->closing && round->closed_at <= state.replayable_from());
  if (is_covered) {
    starts_over_ = fmt::format("it is at round {}, before the oldest snapshot", needed);
  }
}

std::optional<membership::Closing> Follower::Impl::closing(uint64_t round) const {
  const std::lock_guard lock(mutex_);
  const LedgerRound* entry = view_.round(round);
  return entry == nullptr ? std::nullopt : entry->closing;
}

Result<std::shared_ptr<const Bytes>> Follower::Impl::payload(const Contribution& contribution) {
  const transport::BlobId id{contribution.payload, contribution.bytes};
  std::string holder;
  {
    const std::lock_guard lock(mutex_);
    const auto member = static_cast<size_t>(contribution.member);
    holder = transport::participant_name(view_.state().members[member].key);
  }
  auto payload = fetch(id, holder, transport::Priority::kCatchUp);
  fetcher_.forget(id);
  return payload;
}

void Follower::Impl::report(const membership::Audit& audit) { send({audit}); }

std::optional<membership::Closing> Follower::closing(uint64_t round) const {
  return impl_->closing(round);
}
Result<std::shared_ptr<const Bytes>> Follower::payload(const Contribution& contribution) {
  return impl_->payload(contribution);
}
void Follower::report(const membership::Audit& audit) { impl_->report(audit); }

}  // namespace thinwire::member
