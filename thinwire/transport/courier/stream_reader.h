// Reads a stream of records in order from answers and announcements that arrive in any order,
// arrive twice, or never arrive. Decides which sequences to request and which record is next. A
// pure state machine; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "thinwire/base/bytes.h"

namespace thinwire::transport {

class StreamReader {
 public:
  explicit StreamReader(uint64_t first) : next_(first) {}

  // A sequence to request now; nothing if enough have been requested or the stream has ended.
  std::optional<uint64_t> next_to_ask();
  // The outcome of asking for a sequence.
  void found(uint64_t sequence, Bytes record);
  void missing(uint64_t sequence);  // the stream has no such sequence yet
  void unanswered(uint64_t sequence) { asked_.erase(sequence); }

  // A record that was just appended, and was announced without being requested.
  void announced(uint64_t sequence, Bytes record);
  // The stream may have more records than it had when its end was found.
  void expect_more();
  // The connection was lost: no request so far will be answered.
  void forget_requests();

  // The next record, if it has arrived. Each record is returned once.
  std::optional<std::pair<uint64_t, Bytes>> take();

 private:
  void keep(uint64_t sequence, Bytes record);

  uint64_t next_;
  bool at_end_ = false;
  size_t window_ = 1;  // most sequences asked for at once
  std::set<uint64_t> asked_;
  std::map<uint64_t, Bytes> ahead_;
};

}  // namespace thinwire::transport
