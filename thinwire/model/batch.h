// A batch of rows as a model takes it in.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::model {

class Batch {
 public:
  // Of at most `max_rows` rows of at most `max_sequence` predictions; both are >= 1, else Error.
  Batch(int64_t max_rows, int64_t max_sequence, int64_t vocabulary);

  // `tokens` is rows x (sequence + 1). Throws Error for a batch of the wrong size and for a token
  // outside the vocabulary.
  void load(std::span<const int32_t> tokens, int64_t rows);

  int64_t max_tokens() const { return max_rows_ * max_sequence_; }
  int64_t rows() const { return rows_; }
  int64_t sequence() const { return sequence_; }
  int64_t tokens() const { return rows_ * sequence_; }
  // The first tokens() of each count: position t of a row predicts its token t + 1.
  const int32_t* inputs() const { return inputs_.data(); }
  const int32_t* targets() const { return targets_.data(); }
  size_t bytes() const { return (inputs_.size() + targets_.size()) * sizeof(int32_t); }

 private:
  int64_t max_rows_, max_sequence_, vocabulary_;
  int64_t rows_ = 0, sequence_ = 0;
  std::vector<int32_t> inputs_, targets_;
};

}  // namespace thinwire::model
