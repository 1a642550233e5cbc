// A ledger in memory, for simulations. It can fail in the same ways as a remote store.
#pragma once

#include <vector>

#include "thinwire/membership/ledger.h"

namespace thinwire::membership {

// Not thread-safe.
class MemoryLedger final : public LedgerStore {
 public:
  Outcome append(uint64_t expected_last, std::span<const uint8_t> record) override;
  uint64_t last() const override { return records_.size(); }
  Result<Bytes> read(uint64_t sequence) const override;

  // While full, nothing more is stored.
  void set_full(bool full) { full_ = full; }
  // Marks everything stored so far as safe on disk.
  void sync() { synced_ = records_.size(); }
  // Simulates a power cut: unsynced records are lost. Returns the lost records.
  std::vector<Bytes> cut_power();

 private:
  std::vector<Bytes> records_;
  uint64_t synced_ = 0;
  bool full_ = false;
};

}  // namespace thinwire::membership
