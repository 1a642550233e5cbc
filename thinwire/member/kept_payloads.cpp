#include "thinwire/member/kept_payloads.h"

#include <utility>

namespace thinwire::member {

void KeptPayloads::keep(uint64_t round, const Sha256& name, std::shared_ptr<const Bytes> payload) {
  const uint64_t size = payload->size();
  if (rounds_[round].emplace(name, std::move(payload)).second) bytes_ += size;
  while (bytes_ > most_bytes_ && rounds_.size() > 1) forget_oldest();
}

std::shared_ptr<const Bytes> KeptPayloads::find(const Sha256& name) const {
  for (const auto& [round, payloads] : rounds_) {
    if (const auto found = payloads.find(name); found != payloads.end()) return found->second;
  }
  return nullptr;
}

void KeptPayloads::forget_before(uint64_t round) {
  while (!rounds_.empty() && rounds_.begin()->first < round) forget_oldest();
}

std::optional<uint64_t> KeptPayloads::oldest_round() const {
  return rounds_.empty() ? std::nullopt : std::optional(rounds_.begin()->first);
}

void KeptPayloads::forget_oldest() {
  for (const auto& [name, payload] : rounds_.begin()->second) bytes_ -= payload->size();
  rounds_.erase(rounds_.begin());
}

}  // namespace thinwire::member
