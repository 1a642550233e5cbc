// A run's ledger in memory, as a store keeps it: a stream of records that several writers may
// append to, counted from 1. It can fail in the same ways as a remote store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"

namespace thinwire::membership {

// Not thread-safe.
class MemoryLedger {
 public:
  enum class Outcome : uint8_t {
    kStored,
    kOutrun,  // refused: `expected_last` is not the last record
    kFailed,  // it was not stored: the disk is full
  };

  // Stores record `expected_last` + 1.
  Outcome append(uint64_t expected_last, std::span<const uint8_t> record);
  // The number of the last record; 0 if there is none.
  uint64_t last() const { return records_.size(); }
  // kLostPeer if record `sequence` is not there.
  Result<Bytes> read(uint64_t sequence) const;

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
