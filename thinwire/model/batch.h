// A batch of rows as input to a model: what each position reads, what it should predict, and how
// much its loss counts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::model {

// Rows of positions, one after the other; every span is rows x sequence.
struct Examples {
  std::span<const int32_t> inputs;
  // What each position should predict: the next token, a masked token, a class. Ignored, and any
  // number, where the position's weight is 0.
  std::span<const int32_t> targets;
  // Finite factors for each position's loss and its gradient; empty: all 1.
  std::span<const float> weights;
  int64_t rows = 0;
};

class Batch {
 public:
  // For at most `max_rows` rows of at most `max_sequence` predictions. Throws Error unless both are
  // >= 1.
  Batch(int64_t max_rows, int64_t max_sequence, int64_t vocabulary);

  // Every position predicts the token after it: `tokens` is rows x (sequence + 1). Throws Error for
  // a batch of the wrong size and for a token outside the vocabulary.
  void load(std::span<const int32_t> tokens, int64_t rows);
  // The same from Examples; Error also for a weight that is not finite.
  void load(const Examples& examples);

  int64_t max_tokens() const { return max_rows_ * max_sequence_; }
  int64_t rows() const { return rows_; }
  int64_t sequence() const { return sequence_; }
  int64_t tokens() const { return rows_ * sequence_; }
  // The first tokens() of each count; null weights: all 1.
  const int32_t* inputs() const { return inputs_.data(); }
  const int32_t* targets() const { return targets_.data(); }
  const float* weights() const { return weights_.empty() ? nullptr : weights_.data(); }
  size_t bytes() const {
    return (inputs_.size() + targets_.size()) * sizeof(int32_t) + weights_.size() * sizeof(float);
  }

 private:
  int64_t max_rows_, max_sequence_, vocabulary_;
  int64_t rows_ = 0, sequence_ = 0;
  std::vector<int32_t> inputs_, targets_;
  std::vector<float> weights_;
};

// Throws Error naming the first token outside [0, vocabulary) and its index.
void check_tokens(std::span<const int32_t> tokens, int64_t vocabulary);

}  // namespace thinwire::model
