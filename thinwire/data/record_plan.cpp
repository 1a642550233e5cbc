#include "thinwire/data/record_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/number_tokens.h"
#include "thinwire/base/units.h"

namespace thinwire::data {
namespace {

constexpr uint64_t kShortestText = 1;  // tokens: a text's end

// Tokens of [1, length) of a record that are to be learnt.
int64_t count_learnt(const ShardReader& shard, uint64_t first, uint64_t length) {
  int64_t learnt = 0;
  for (uint64_t i = 1; i < length; ++i) learnt += shard.learnt(first + i) ? 1 : 0;
  return learnt;
}

// The tokens to keep of two records that are longer than `width` together.
std::pair<uint64_t, uint64_t> truncated(uint64_t first, uint64_t second, uint64_t width) {
  const uint64_t shorter = std::min({first, second, width / 2});
  const uint64_t longer = width - shorter;
  if (first <= second) return {shorter, std::min(second, longer)};
  return {std::min(first, longer), shorter};
}

}  // namespace

RecordPlan::RecordPlan(const TokenSet& tokens, int64_t sequence, const RecordOptions& options)
    : tokens_(&tokens),
      unit_(tokens.kind() == ShardKind::kPairs ? 2 : 1),
      width_(static_cast<uint64_t>(sequence) + 1),
      truncates_(options.too_long == config::LongRecords::kTruncate),
      target_(tokens.kind() == ShardKind::kNumbers ? kNumberTokens : 1) {
  if (labelled() && width_ < target_ + kShortestText) {
    throw UsageError(fmt::format("train.sequence must be >= {} for {}, got {}",
                                 target_ + kShortestText - 1, tokens.folder().string(), sequence));
  }
  uint64_t shard_begin = 0;
  uint64_t longest = 0;
  for (const ShardReader& shard : tokens.shards()) {
    uint64_t first = 0;
    const std::vector<uint32_t> lengths = shard.lengths();
    for (size_t i = 0; i < lengths.size(); i += unit_) {
      Group group{std::span(lengths).subspan(i, unit_)};
      for (const uint32_t length : group.lengths) group.tokens += length;
      longest = std::max(longest, group.tokens);
      add(shard, shard_begin, first, group, options);
      first += group.tokens;
    }
    shard_begin += shard.tokens();
  }
  if (long_ > 0 && options.too_long == config::LongRecords::kError) refuse_long(longest);
  begins_.push_back(records_.size());
  if (!records_.empty()) return;
  throw Error(fmt::format(
      "{} has no {} that fits train.sequence = {} with something to learn: {} longer, {} with "
      "nothing to learn; use a longer sequence",
      tokens.folder().string(), pairs() ? "pair of answers" : "record", sequence, long_, empty_));
}

void RecordPlan::add(const ShardReader& shard, uint64_t shard_begin, uint64_t first,
                     const Group& group, const RecordOptions& options) {
  const bool too_long = group.tokens > width_;
  long_ += too_long ? 1 : 0;
  if (too_long && !truncates_) return;
  uint64_t kept[2] = {std::min<uint64_t>(group.lengths[0], width_), 0};
  if (pairs()) {
    kept[1] = group.lengths[1];
    if (too_long) std::tie(kept[0], kept[1]) = truncated(group.lengths[0], kept[1], width_);
  }
  Placed placed[2];
  int64_t learnt = 0;
  bool empty = false;
  for (size_t i = 0; i < unit_; ++i) {
    placed[i] = {shard_begin + first, static_cast<uint32_t>(kept[i]), group.lengths[i]};
    const int64_t of_this = labelled() ? 1 : count_learnt(shard, first, kept[i]);
    learnt += of_this;
    empty = empty || of_this == 0;
    first += group.lengths[i];
  }
  place(std::span<const Placed>(placed).first(unit_), empty ? 0 : learnt, options);
}

void RecordPlan::refuse_long(uint64_t longest) const {
  throw Error(fmt::format(
      "{} of the {} {} in {} are longer than a row of train.sequence + 1 = {} tokens, the "
      "longest has {}; use a longer sequence, or train.long_records=truncate (which keeps "
      "their first tokens) or \"skip\"",
      long_, tokens_->documents() / unit_, pairs() ? "pairs of answers" : "records",
      tokens_->folder().string(), width_, longest));
}

void RecordPlan::place(std::span<const Placed> group, int64_t learnt,
                       const RecordOptions& options) {
  if (learnt == 0) {
    ++empty_;
    return;
  }
  uint64_t length = 0;
  for (const Placed& record : group) length += record.length;
  const bool fits = options.packing && !begins_.empty() && filled_ + length <= width_;
  if (!fits) {
    begins_.push_back(records_.size());
    counted_.push_back(0);
    filled_ = 0;
  }
  records_.insert(records_.end(), group.begin(), group.end());
  counted_.back() += learnt;
  filled_ += length;
  tokens_placed_ += length;
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
    read_record(record, tokens.subspan(at, record.length));
    if (labelled()) {
      weights[at + record.length - target_ - 1] = 1;
      begin(at + record.length - target_);
    }
    for (uint32_t token = 1; token < record.length && !labelled(); ++token) {
      if (tokens_->learnt(record.first + token)) weights[at + token - 1] = 1;
    }
    at += record.length;
  }
  begin(at);
  std::ranges::fill(tokens.subspan(at), 0);
}

void RecordPlan::read_record(const Placed& record, std::span<int32_t> tokens) const {
  tokens_->read(record.first, tokens);
  if (!labelled() || record.length == record.whole) return;
  const size_t end = target_ + 1;
  tokens_->read(record.first + record.whole - end, tokens.last(end));
}

std::string RecordPlan::description() const {
  int64_t learnt = 0;
  for (const int64_t row : counted_) learnt += row;
  std::string text =
      fmt::format("{} in {}, {} of {} tokens learnt",
                  thinwire::counted(records_.size() / unit_, pairs() ? "pair" : "record"),
                  thinwire::counted(rows(), "row"), learnt, tokens());
  if (long_ > 0) {
    text += fmt::format("; {} longer than a row {}", long_, truncates_ ? "truncated" : "skipped");
  }
  if (empty_ > 0) text += fmt::format("; {} with nothing to learn in a row skipped", empty_);
  return text;
}

}  // namespace thinwire::data
