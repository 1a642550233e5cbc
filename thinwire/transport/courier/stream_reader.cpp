#include "thinwire/transport/courier/stream_reader.h"

#include <algorithm>

namespace thinwire::transport {
namespace {

constexpr size_t kMaxAsked = 16;
constexpr size_t kMaxAhead = 64;

}  // namespace

std::optional<uint64_t> StreamReader::next_to_ask() {
  if (at_end_ || asked_.size() >= window_) return std::nullopt;
  uint64_t sequence = next_;
  while (asked_.contains(sequence) || ahead_.contains(sequence)) ++sequence;
  if (sequence >= next_ + kMaxAhead) return std::nullopt;
  asked_.insert(sequence);
  return sequence;
}

void StreamReader::found(uint64_t sequence, Bytes record) {
  asked_.erase(sequence);
  window_ = std::min(2 * window_, kMaxAsked);
  keep(sequence, std::move(record));
}

void StreamReader::missing(uint64_t sequence) {
  asked_.erase(sequence);
  if (sequence < next_ || ahead_.contains(sequence)) return;
  at_end_ = true;
  window_ = 1;
}

void StreamReader::announced(uint64_t sequence, Bytes record) {
  keep(sequence, std::move(record));
  if (sequence > next_) expect_more();  // those between were missed
}

void StreamReader::expect_more() { at_end_ = false; }

void StreamReader::forget_requests() {
  asked_.clear();
  window_ = 1;
  expect_more();
}

void StreamReader::keep(uint64_t sequence, Bytes record) {
  if (sequence < next_ || sequence >= next_ + kMaxAhead) return;
  ahead_.emplace(sequence, std::move(record));
}

std::optional<std::pair<uint64_t, Bytes>> StreamReader::take() {
  auto first = ahead_.extract(next_);
  if (first.empty()) return std::nullopt;
  ++next_;
  return std::pair(first.key(), std::move(first.mapped()));
}

}  // namespace thinwire::transport
