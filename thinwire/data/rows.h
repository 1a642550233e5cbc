// Rows: the corpus cut into pieces of `sequence` predictions. Row i of a run is a function of
// (seed, i) and the corpus, nothing else: pass = i / count, place = permuted(i % count, count,
// derive_seed(seed, pass)), so every pass shows every place once, in its own order, and any worker
// can compute any row. Neighbouring places share one token: the last target of one is the first
// input of the next. At most sequence tokens at the corpus's end belong to no row.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/data/shard.h"

namespace thinwire::data {

class Rows {
 public:
  // `tokens` must outlive this. Throws Error when the corpus is shorter than one row.
  Rows(const TokenSet& tokens, int64_t sequence, uint64_t seed);
  // In corpus order, for validation: row i is place i % count.
  static Rows ordered(const TokenSet& tokens, int64_t sequence);

  uint64_t count() const { return count_; }  // rows of one pass
  int64_t sequence() const { return sequence_; }
  // The place of row `index`, in [0, count). Any index works.
  uint64_t place(uint64_t index) const;
  // The sequence + 1 tokens of row `index`: inputs are the first `sequence`, targets the last.
  void row(uint64_t index, std::span<int32_t> out) const;

 private:
  const TokenSet* tokens_;
  int64_t sequence_;
  uint64_t count_;
  uint64_t seed_;
  bool permute_ = true;
};

}  // namespace thinwire::data
