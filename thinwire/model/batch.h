// A batch of rows as input to a model: what each position reads, what it should predict, how much
// its loss counts, and which earlier positions it may attend to.
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

// Optional marks on the rows x sequence predictions of rows of tokens.
struct RowMarks {
  // Finite factors for each prediction's loss and its gradient; empty: all 1.
  std::span<const float> weights = {};
  // Not 0 where a document begins; its positions see nothing before it in the row. Empty: each row
  // is one document.
  std::span<const uint8_t> begins = {};
};

// Positions [first, first + count) of a batch, in one row, that see each other.
struct Document {
  int64_t first = 0;
  int64_t count = 0;
};

class Batch {
 public:
  // For at most `max_rows` rows of at most `max_sequence` predictions. Throws Error unless both are
  // >= 1.
  Batch(int64_t max_rows, int64_t max_sequence, int64_t vocabulary);

  // Every position predicts the token after it: `tokens` is rows x (sequence + 1). Throws Error for
  // a batch of the wrong size, a token outside the vocabulary, and a weight that is not finite.
  void load(std::span<const int32_t> tokens, int64_t rows, const RowMarks& marks = {});
  // The same from Examples; Error also for a weight that is not finite.
  void load(const Examples& examples);

  // Multiplies the weights of each document's positions by its factor. Throws Error unless there is
  // one factor for each document.
  void reweigh(std::span<const float> factors);

  int64_t max_tokens() const { return max_rows_ * max_sequence_; }
  int64_t rows() const { return rows_; }
  int64_t sequence() const { return sequence_; }
  int64_t tokens() const { return rows_ * sequence_; }
  // The first tokens() of each count; null weights: all 1.
  const int32_t* inputs() const { return inputs_.data(); }
  const int32_t* targets() const { return targets_.data(); }
  const float* weights() const { return weights_.empty() ? nullptr : weights_.data(); }
  // All positions, in order.
  const std::vector<Document>& documents() const { return documents_; }
  // Whether a row has several of them.
  bool is_divided() const { return static_cast<int64_t>(documents_.size()) > rows_; }
  size_t bytes() const {
    return (inputs_.size() + targets_.size()) * sizeof(int32_t) + weights_.size() * sizeof(float) +
           documents_.size() * sizeof(Document);
  }

 private:
  void weigh(std::span<const float> weights);
  // Divides the rows where documents begin.
  void divide(std::span<const uint8_t> begins);

  int64_t max_rows_, max_sequence_, vocabulary_;
  int64_t rows_ = 0, sequence_ = 0;
  std::vector<int32_t> inputs_, targets_;
  std::vector<float> weights_;
  std::vector<Document> documents_;
};

// The classes of a batch's labelled documents: those whose last position has a weight other than 0.
// Its target is the class; of a model with one output the number that begins there
// (base/number_tokens.h). They are in order.
struct ClassTargets {
  std::vector<int64_t> first;    // position of each document
  std::vector<int32_t> classes;  // or the bits of the numbers as fp32
  std::vector<float> weights;
};

// `count`: the model's outputs. Throws Error for a class that is not below it, for a number that is
// none, and if no document is labelled.
ClassTargets class_targets(const Batch& batch, int64_t count);

// sums[i]: of the values of document i's positions.
void sum_by_document(const Batch& batch, std::span<const float> values, std::span<double> sums);

// Throws Error naming the first token outside [0, vocabulary) and its index.
void check_tokens(std::span<const int32_t> tokens, int64_t vocabulary);

}  // namespace thinwire::model
