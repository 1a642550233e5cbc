// How records go through a ledger's stream, whose messages are limited: a record as it is, or, if
// it is longer than a message, as parts of it that follow one another. Only whole records are
// signed and chained, so nothing else needs to know. docs/formats.md, "Records longer than a
// message".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/sha256.h"

namespace thinwire::membership {

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
