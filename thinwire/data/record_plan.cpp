#include "thinwire/data/record_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "thinwire/base/error.h"
#include "thinwire/base/units.h"

namespace thinwire::data {
namespace {

// Tokens of [1, length) of a record that are to be learnt.
int64_t count_learnt(const ShardReader& shard, uint64_t first, uint64_t length) {
  int64_t learnt = 0;
  for (uint64_t i = 1; i < length; ++i) learnt += shard.learnt(first + i) ? 1 : 0;
  return learnt;
}

}  // namespace

RecordPlan::RecordPlan(const TokenSet& tokens, int64_t sequence, const RecordOptions& options)
    : tokens_(&tokens),
      width_(static_cast<uint64_t>(sequence) + 1),
      truncates_(options.too_long == config::LongRecords::kTruncate) {
  uint64_t shard_begin = 0;
  uint64_t longest = 0;
  for (const ShardReader& shard : tokens.shards()) {
    uint64_t first = 0;
    for (const uint32_t length : shard.lengths()) {
      longest = std::max<uint64_t>(longest, length);
      const bool too_long = length > width_;
      long_ += too_long ? 1 : 0;
      if (!too_long || truncates_) {
        const auto kept = static_cast<uint32_t>(std::min<uint64_t>(length, width_));
        place({shard_begin + first, kept}, count_learnt(shard, first, kept), options);
      }
      first += length;
    }
    shard_begin += shard.tokens();
  }
  if (long_ > 0 && options.too_long == config::LongRecords::kError) refuse_long(longest);
  begins_.push_back(records_.size());
  if (!records_.empty()) return;
  throw Error(fmt::format(
      "{} has no record that fits train.sequence = {} with something to learn: {} longer, {} with "
      "nothing to learn; use a longer sequence",
      tokens.folder().string(), sequence, long_, empty_));
}

void RecordPlan::refuse_long(uint64_t longest) const {
  throw Error(fmt::format(
      "{} of the {} records in {} are longer than a row of train.sequence + 1 = {} tokens, the "
      "longest has {}; use a longer sequence, or train.long_records = \"truncate\" (which keeps "
      "their first tokens) or \"skip\"",
      long_, tokens_->documents(), tokens_->folder().string(), width_, longest));
}

void RecordPlan::place(const Placed& record, int64_t learnt, const RecordOptions& options) {
  if (learnt == 0) {
    ++empty_;
    return;
  }
  const bool fits = options.packing && !begins_.empty() && filled_ + record.length <= width_;
  if (!fits) {
    begins_.push_back(records_.size());
    counted_.push_back(0);
    filled_ = 0;
  }
  records_.push_back(record);
  counted_.back() += learnt;
  filled_ += record.length;
}

void RecordPlan::read(uint64_t place, std::span<int32_t> tokens, std::span<float> weights,
                      std::span<uint8_t> begins) const {
  const bool marks = !begins.empty();
  if (tokens.size() != width_ || weights.size() + 1 != width_ ||
      (marks && begins.size() != weights.size())) {
    throw Error(fmt::format("a row has {} tokens and {} weights, {} and {} were requested", width_,
                            width_ - 1, tokens.size(), weights.size()));
  }
  std::ranges::fill(weights, 0.0F);
  std::ranges::fill(begins, uint8_t{0});
  const auto begin = [&](size_t position) {
    if (position < begins.size()) begins[position] = 1;
  };
  size_t at = 0;
  for (uint64_t i = begins_.at(place); i < begins_.at(place + 1); ++i) {
    const Placed& record = records_[i];
    begin(at);
    tokens_->read(record.first, tokens.subspan(at, record.length));
    for (uint32_t token = 1; token < record.length; ++token) {
      if (tokens_->learnt(record.first + token)) weights[at + token - 1] = 1;
    }
    at += record.length;
  }
  begin(at);
  std::ranges::fill(tokens.subspan(at), 0);
}

std::string RecordPlan::description() const {
  int64_t learnt = 0;
  for (const int64_t row : counted_) learnt += row;
  uint64_t kept = 0;
  for (const Placed& record : records_) kept += record.length;
  std::string text =
      fmt::format("{} in {}, {} of {} tokens learnt", thinwire::counted(records_.size(), "record"),
                  thinwire::counted(rows(), "row"), learnt, kept);
  if (long_ > 0) {
    text += fmt::format("; {} longer than a row {}", long_, truncates_ ? "truncated" : "skipped");
  }
  if (empty_ > 0) text += fmt::format("; {} with nothing to learn in a row skipped", empty_);
  return text;
}

}  // namespace thinwire::data
