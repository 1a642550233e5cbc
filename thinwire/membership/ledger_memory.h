// A ledger in memory that can fail as a store at the end of a network can: for simulations.
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

  // The disk is full: nothing is stored any more.
  void set_full(bool full) { full_ = full; }
  // What is stored so far is safe on the disk.
  void sync() { synced_ = records_.size(); }
  // The power goes: what was not synced is lost. Returns what is lost.
  std::vector<Bytes> cut_power();

 private:
  std::vector<Bytes> records_;
  uint64_t synced_ = 0;
  bool full_ = false;
};

}  // namespace thinwire::membership
