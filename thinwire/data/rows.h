// Rows: the corpus cut into pieces with `sequence` predictions each. Row i of a run is a function
// of (seed, i) and the corpus, nothing else: pass = i / count, place = permuted(i % count, count,
// derive_seed(seed, pass)), so every pass shows every place once, in its own order, and any worker
// can compute any row. Neighbouring places share one token: the last target of one is the first
// input of the next. At most sequence tokens at the corpus's end belong to no row. Rows of records
// hold whole ones (record_plan.h).
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/mutex.h"
#include "thinwire/data/record_plan.h"
#include "thinwire/data/shard.h"

namespace thinwire::data {

struct RowOptions {
  RecordOptions records = {};
  // Set: rows say where documents begin. A record begins with its first token, a document of text
  // with this one: the EOS of the document before it, after which generation begins too. Rows of
  // pairs, and of texts with a class, always say it.
  std::optional<int32_t> begin = {};
  // Rows of a step, of which a reader takes the same part in the next ones; where tokens are
  // elsewhere those of the next kStepsExpected steps are expected. 0: not known.
  uint64_t step_rows = 0;
};
inline constexpr uint64_t kStepsExpected = 16;

// Rows, one after the other.
struct RowBlock {
  // [rows, sequence + 1]: a row's inputs are the first `sequence`, its targets the last.
  std::vector<int32_t> tokens;
  // [rows, sequence]: 1 or 0, how much the loss of a prediction counts; empty: all count.
  std::vector<float> weights = {};
  // [rows, sequence]: 1 where a document begins, else 0; empty without RowOptions::begin.
  std::vector<uint8_t> begins = {};
};

class Rows {
 public:
  // `tokens` must outlive this. Throws Error when the corpus is shorter than one row, and what
  // RecordPlan throws.
  Rows(const TokenSet& tokens, int64_t sequence, uint64_t seed, const RowOptions& options = {});
  // In corpus order, for validation: row i is place i % count.
  static Rows ordered(const TokenSet& tokens, int64_t sequence, const RowOptions& options = {});

  uint64_t count() const { return count_; }  // rows of one pass
  int64_t sequence() const { return sequence_; }
  // Tokens that the rows of one pass hold, without padding.
  uint64_t tokens() const {
    return records_ ? records_->tokens() : count_ * static_cast<uint64_t>(sequence_);
  }
  // The place of row `index`, in [0, count). Any index works.
  uint64_t place(uint64_t index) const;
  // Thread-safe.
  RowBlock read(std::span<const uint64_t> indices) const;
  // Whether predictions have weights; without them all count.
  bool weighted() const { return records_ != nullptr; }
  // Predictions of row `index` that count, or of pairs the pairs; at least 1.
  int64_t counted(uint64_t index) const;
  // Whether rows hold pairs of answers; if so, those of row `index`.
  bool pairs() const { return records_ != nullptr && records_->pairs(); }
  RecordPlan::PairRange pairs_of(uint64_t index) const { return records_->pairs_of(place(index)); }
  // Whether rows hold texts with a class.
  bool labelled() const { return records_ != nullptr && records_->labelled(); }
  // Null unless the rows are of records.
  const RecordPlan* records() const { return records_.get(); }

 private:
  void expect(std::span<const uint64_t> indices) const;
  void read_text(uint64_t place, std::span<int32_t> tokens, std::span<uint8_t> begins) const;

  const TokenSet* tokens_;
  int64_t sequence_;
  uint64_t count_;
  uint64_t seed_;
  std::optional<int32_t> begin_;
  uint64_t step_rows_;
  bool permute_ = true;
  std::shared_ptr<const RecordPlan> records_;
};

// Reads the rows of the next steps on a thread of its own, so that a step never waits for the disk.

// The rows of one step.
struct Batch : RowBlock {
  uint64_t step = 0;
  uint64_t rows = 0;
};

class Prefetcher {
 public:
  // Which rows a step takes; called on the prefetch thread, in step order, at most `depth` steps
  // ahead of take().
  using Order = std::function<std::vector<uint64_t>(uint64_t step)>;

  // `rows` must outlive this; depth >= 1.
  Prefetcher(const Rows& rows, uint64_t first_step, Order order, size_t depth = kStepsReadAhead);
  ~Prefetcher();  // stops the thread and drops what was read ahead
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next step's batch, in order from first_step. An error while reading it is thrown here, and
  // again on every later call.
  Batch take();

 private:
  void loop(uint64_t step);
  Batch read(uint64_t step) const;

  const Rows& rows_;
  Order order_;
  size_t depth_;
  Mutex mutex_;
  Condition changed_;
  std::deque<Batch> ready_ GUARDED_BY(mutex_);
  std::exception_ptr error_ GUARDED_BY(mutex_);
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace thinwire::data
