#include "memory_ledger.h"

#include <fmt/format.h>

namespace thinwire::membership {

MemoryLedger::Outcome MemoryLedger::append(uint64_t expected_last,
                                           std::span<const uint8_t> record) {
  if (full_) return Outcome::kFailed;
  if (expected_last != records_.size()) return Outcome::kOutrun;
  records_.emplace_back(record.begin(), record.end());
  return Outcome::kStored;
}

Result<Bytes> MemoryLedger::read(uint64_t sequence) const {
  if (sequence == 0 || sequence > records_.size()) {
    return fail(FailureKind::kLostPeer, fmt::format("record {} is not stored", sequence));
  }
  return records_[sequence - 1];
}

std::vector<Bytes> MemoryLedger::cut_power() {
  std::vector<Bytes> lost(records_.begin() + static_cast<ptrdiff_t>(synced_), records_.end());
  records_.resize(synced_);
  return lost;
}

}  // namespace thinwire::membership
