// The ledger of a run as bytes: how records are encoded for storing and sending (docs/formats.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/base/signature.h"
#include "thinwire/membership/record.h"

namespace thinwire::membership {

// Signs the record as its writer; record.writer must be the signer's key.
Bytes encode_record(const Record& record, const Signer& signer);

// Total: any bytes give a record or kCorruptPayload with a reason. Allocates no more than a fixed
// multiple of the input size. A decoded record encodes to the same bytes again, apart from the
// signature, which is not checked here.
Result<Record> decode_record(std::span<const uint8_t> bytes);

using Verify = bool (*)(const PublicKey&, std::span<const uint8_t>, const Signature&);

// Whether the writer named in `record` signed `bytes`, which must decode.
bool is_authentic(std::span<const uint8_t> bytes, const Record& record, Verify verify);

// Whether one of the founding's coordinators wrote and signed `bytes`, which must decode. What
// anybody else has got into the stream is no record.
bool is_by_coordinator(std::span<const uint8_t> bytes, const Record& record,
                       const Founding& founding, Verify verify);

// The hash by which the next record names this one as its predecessor.
Sha256 record_hash(std::span<const uint8_t> bytes);

// The last records of a ledger, to restore what the store loses.

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

// How records go through a ledger's stream, whose messages are limited: a record as it is, or, if
// it is longer than a message, as parts of it that follow one another. Only whole records are
// signed and chained, so nothing else needs to know. docs/formats.md, "Records longer than a
// message".

// The largest message that is a record or a part of one. A KiB less than a courier carries, so that
// a member can also give it back in a statement.
inline constexpr size_t kMaxRecordMessage = 255 << 10;
// The largest record: parts of a longer one are not taken. There is room for 16,000 members that
// exchange 8 fragments at once and may be late with each (run_plan.h).
inline constexpr size_t kMaxRecordBytes = 16 << 20;

// In the order in which they are appended. Throws Error for more than kMaxRecordBytes.
std::vector<Bytes> messages_of(const Bytes& record);

// Puts records together again, in memory that grows with what arrives, up to kMaxRecordBytes. A
// writer may stop between two parts; whatever another record follows is forgotten. Not thread-safe.
class RecordJoiner {
 public:
  // Takes a message. Returns a record if that is one or completes one; the parts of a record may
  // arrive in any order, and repeatedly. What is not a part is returned unchanged. Total: parts
  // that contradict one another, or make something with another hash than they say, are dropped.
  std::optional<Bytes> take(Bytes message);
  // How many of the first messages of this record are here.
  size_t held(const Sha256& record) const;

 private:
  Sha256 record_;                            // of which parts are here
  uint64_t bytes_ = 0;                       // its length; 0: of none
  std::vector<std::optional<Bytes>> parts_;  // their content
};

}  // namespace thinwire::membership
