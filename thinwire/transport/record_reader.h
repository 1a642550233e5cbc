// Reads a stream of records in order out of answers and announcements that come in any order, are
// doubled, or do not come at all: which sequences to ask for, and what is next. A pure state
// machine; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "thinwire/base/bytes.h"

namespace thinwire::transport {

class RecordReader {
 public:
  explicit RecordReader(uint64_t first) : next_(first) {}

  // A sequence to ask for now; nothing where enough is asked for, or the stream ends.
  std::optional<uint64_t> next_to_ask();
  // What became of it.
  void found(uint64_t sequence, Bytes record);
  void missing(uint64_t sequence);  // the stream has no such sequence yet
  void unanswered(uint64_t sequence) { asked_.erase(sequence); }

  // A record that was just appended, brought without being asked for.
  void heard(uint64_t sequence, Bytes record);
  // There may be more than was found last.
  void look_again();
  // Nothing that was asked for will be answered: the connection was lost.
  void start_again();

  // The next record, once.
  std::optional<std::pair<uint64_t, Bytes>> take();

 private:
  void keep(uint64_t sequence, Bytes record);

  uint64_t next_;
  bool at_end_ = false;
  size_t window_ = 1;  // at most asked for at once
  std::set<uint64_t> asked_;
  std::map<uint64_t, Bytes> ahead_;
};

}  // namespace thinwire::transport
