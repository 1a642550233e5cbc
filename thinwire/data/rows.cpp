#include "thinwire/data/rows.h"

#include <fmt/format.h>

#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"

namespace thinwire::data {

Rows::Rows(const TokenSet& tokens, int64_t sequence, uint64_t seed, const RowOptions& options)
    : tokens_(&tokens),
      sequence_(sequence),
      seed_(seed),
      begin_(options.begin),
      step_rows_(options.step_rows) {
  if (sequence < 1) throw UsageError(fmt::format("train.sequence must be >= 1, got {}", sequence));
  if (tokens.kind() != ShardKind::kText) {
    records_ = std::make_shared<RecordPlan>(tokens, sequence, options.records);
    count_ = records_->rows();
    if (records_->pairs() || records_->labelled()) begin_ = begin_.value_or(0);
    return;
  }
  const uint64_t predictions = tokens.tokens() == 0 ? 0 : tokens.tokens() - 1;
  count_ = predictions / static_cast<uint64_t>(sequence);
  if (count_ == 0) {
    throw Error(
        fmt::format("{} holds {} tokens, but one row of train.sequence = {} needs {}; use "
                    "a shorter sequence, more text or, where too little is held out, a larger "
                    "data.validation_fraction",
                    tokens.folder().string(), tokens.tokens(), sequence, sequence + 1));
  }
}

Rows Rows::ordered(const TokenSet& tokens, int64_t sequence, const RowOptions& options) {
  Rows rows(tokens, sequence, 0, options);
  rows.permute_ = false;
  return rows;
}

uint64_t Rows::place(uint64_t index) const {
  const uint64_t at = index % count_;
  return permute_ ? permuted(at, count_, derive_seed(seed_, index / count_)) : at;
}

int64_t Rows::counted(uint64_t index) const {
  return records_ ? records_->counted(place(index)) : sequence_;
}

RowBlock Rows::read(std::span<const uint64_t> indices) const {
  const auto sequence = static_cast<size_t>(sequence_);
  const size_t predictions = indices.size() * sequence;
  RowBlock block{std::vector<int32_t>(predictions + indices.size())};
  if (records_) block.weights.resize(predictions);
  if (begin_) block.begins.resize(predictions);
  if (tokens_->elsewhere() && !records_) expect(indices);
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto row = std::span(block.tokens).subspan(i * (sequence + 1), sequence + 1);
    const auto of_row = [&](auto& values) {
      return values.empty() ? std::span(values) : std::span(values).subspan(i * sequence, sequence);
    };
    if (records_) {
      records_->read(place(indices[i]), row, of_row(block.weights), of_row(block.begins));
    } else {
      read_text(place(indices[i]), row, of_row(block.begins));
    }
  }
  return block;
}

void Rows::expect(std::span<const uint64_t> indices) const {
  const auto sequence = static_cast<uint64_t>(sequence_);
  for (uint64_t steps = 0; steps <= (step_rows_ == 0 ? 0 : kStepsExpected); ++steps) {
    for (const uint64_t index : indices) {
      tokens_->expect(place(index + steps * step_rows_) * sequence, sequence + 1);
    }
  }
}

void Rows::read_text(uint64_t place, std::span<int32_t> tokens, std::span<uint8_t> begins) const {
  tokens_->read(place * static_cast<uint64_t>(sequence_), tokens);
  for (size_t i = 0; i < begins.size(); ++i) begins[i] = tokens[i] == *begin_ ? 1 : 0;
}

Prefetcher::Prefetcher(const Rows& rows, uint64_t first_step, Order order, size_t depth)
    : rows_(rows), order_(std::move(order)), depth_(depth) {
  if (depth == 0) throw Error("a prefetcher needs a depth of at least 1 step");
  thread_ = std::thread([this, first_step] { loop(first_step); });
}

Prefetcher::~Prefetcher() {
  {
    const Lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Batch Prefetcher::take() {
  const Lock lock(mutex_);
  while (ready_.empty() && error_ == nullptr) changed_.wait(mutex_);
  if (ready_.empty()) std::rethrow_exception(error_);
  Batch batch = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return batch;
}

void Prefetcher::loop(uint64_t step) {
  const Lock lock(mutex_);
  while (true) {
    while (!stop_ && ready_.size() >= depth_) changed_.wait(mutex_);
    if (stop_) return;
    Batch batch;
    std::exception_ptr error;
    try {
      const Unlock meanwhile(mutex_);
      batch = read(step++);
    } catch (...) {
      error = std::current_exception();
    }
    error_ = error;
    if (!error) ready_.push_back(std::move(batch));
    changed_.notify_all();
    if (error) return;
  }
}

Batch Prefetcher::read(uint64_t step) const {
  const std::vector<uint64_t> order = order_(step);
  return {rows_.read(order), step, order.size()};
}

}  // namespace thinwire::data
