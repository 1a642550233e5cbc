// The last records of a ledger, to restore what the store loses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "thinwire/base/bytes.h"

namespace thinwire::membership {

// Not thread-safe.
class RecordTail {
 public:
  void push(Bytes record) {
    bytes_ += record.size();
    records_.push_back(std::move(record));
    while (records_.size() > kRecords || (bytes_ > kBytes && records_.size() > 1)) {
      bytes_ -= records_.front().size();
      records_.pop_front();
    }
  }
  void clear() { *this = {}; }
  size_t size() const { return records_.size(); }
  // The `back`-th from the end; 1 is the last. At most size().
  const Bytes& from_end(size_t back) const { return records_[records_.size() - back]; }

 private:
  static constexpr size_t kRecords = 4096;
  static constexpr uint64_t kBytes = 256 << 20;

  std::deque<Bytes> records_;
  uint64_t bytes_ = 0;
};

}  // namespace thinwire::membership
