#include "thinwire/model/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/base/number_tokens.h"

namespace thinwire::model {
namespace {

int64_t positive(int64_t value, const char* name) {
  if (value < 1) throw Error(fmt::format("a batch: {} must be >= 1, got {}", name, value));
  return value;
}

int32_t class_at(const Batch& batch, int64_t last, int64_t count) {
  const int32_t label = batch.targets()[last];
  if (label < count) return label;
  throw Error(
      fmt::format("a text is of class {}, but the model distinguishes {} ([roberta] labels), from "
                  "0 to {}",
                  label, count, count - 1));
}

int32_t number_bits(const Batch& batch, int64_t last) {
  const auto row_end = batch.sequence() - last % batch.sequence();
  return std::bit_cast<int32_t>(
      number_of_tokens(std::span(batch.targets() + last, static_cast<size_t>(row_end))));
}

}  // namespace

Batch::Batch(int64_t max_rows, int64_t max_sequence, int64_t vocabulary)
    : max_rows_(positive(max_rows, "max_rows")),
      max_sequence_(positive(max_sequence, "sequence")),
      vocabulary_(vocabulary),
      inputs_(static_cast<size_t>(max_tokens())),
      targets_(static_cast<size_t>(max_tokens())) {}

void Batch::load(std::span<const int32_t> tokens, int64_t rows, const RowMarks& marks) {
  const auto count = static_cast<int64_t>(tokens.size());
  if (rows < 1 || rows > max_rows_ || count % rows != 0 || count / rows < 2 ||
      count / rows - 1 > max_sequence_) {
    throw Error(fmt::format(
        "a batch of {} rows with {} tokens in all; this model takes 1 to {} rows of 2 to {} tokens",
        rows, count, max_rows_, max_sequence_ + 1));
  }
  check_tokens(tokens, vocabulary_);
  rows_ = rows;
  sequence_ = count / rows - 1;
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t* const row = tokens.data() + r * (sequence_ + 1);
    std::copy_n(row, sequence_, inputs_.data() + r * sequence_);
    std::copy_n(row + 1, sequence_, targets_.data() + r * sequence_);
  }
  const auto predictions = static_cast<size_t>(this->tokens());
  if ((!marks.weights.empty() && marks.weights.size() != predictions) ||
      (!marks.begins.empty() && marks.begins.size() != predictions)) {
    throw Error(fmt::format("a batch of {} predictions with {} weights and {} marks of documents",
                            predictions, marks.weights.size(), marks.begins.size()));
  }
  weigh(marks.weights);
  divide(marks.begins);
}

void Batch::divide(std::span<const uint8_t> begins) {
  documents_.clear();
  for (int64_t first = 0; first < tokens(); first += sequence_) {
    documents_.push_back({first, sequence_});
    for (int64_t i = 1; !begins.empty() && i < sequence_; ++i) {
      if (begins[static_cast<size_t>(first + i)] == 0) continue;
      documents_.back().count = first + i - documents_.back().first;
      documents_.push_back({first + i, sequence_ - i});
    }
  }
}

void Batch::weigh(std::span<const float> weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!std::isfinite(weights[i])) {
      throw Error(fmt::format("the weight of position {} is {}", i, weights[i]));
    }
  }
  weights_.assign(weights.begin(), weights.end());
}

void Batch::reweigh(std::span<const float> factors) {
  if (factors.size() != documents_.size()) {
    throw Error(
        fmt::format("{} factors for a batch of {} documents", factors.size(), documents_.size()));
  }
  if (weights_.empty()) weights_.assign(static_cast<size_t>(tokens()), 1.0F);
  for (size_t i = 0; i < factors.size(); ++i) {
    const auto first = static_cast<size_t>(documents_[i].first);
    const auto count = static_cast<size_t>(documents_[i].count);
    for (float& weight : std::span(weights_).subspan(first, count)) weight *= factors[i];
  }
}

void Batch::load(const Examples& examples) {
  const auto count = static_cast<int64_t>(examples.inputs.size());
  const int64_t rows = examples.rows;
  if (rows < 1 || rows > max_rows_ || count % rows != 0 || count < rows ||
      count / rows > max_sequence_) {
    throw Error(fmt::format(
        "a batch of {} rows with {} positions in all; this model takes 1 to {} rows of 1 to {}",
        rows, count, max_rows_, max_sequence_));
  }
  const bool weighted = !examples.weights.empty();
  if (examples.targets.size() != examples.inputs.size() ||
      (weighted && examples.weights.size() != examples.inputs.size())) {
    throw Error(fmt::format("a batch of {} positions with {} targets and {} weights", count,
                            examples.targets.size(), examples.weights.size()));
  }
  check_tokens(examples.inputs, vocabulary_);
  if (!weighted) check_tokens(examples.targets, vocabulary_);
  for (size_t i = 0; weighted && i < examples.weights.size(); ++i) {
    if (examples.weights[i] != 0) check_tokens(examples.targets.subspan(i, 1), vocabulary_);
  }
  rows_ = rows;
  sequence_ = count / rows;
  std::copy(examples.inputs.begin(), examples.inputs.end(), inputs_.begin());
  std::copy(examples.targets.begin(), examples.targets.end(), targets_.begin());
  for (size_t i = 0; weighted && i < examples.weights.size(); ++i) {
    if (examples.weights[i] == 0) targets_[i] = 0;  // it may be no token
  }
  weigh(examples.weights);
  divide({});
}

ClassTargets class_targets(const Batch& batch, int64_t count) {
  ClassTargets all;
  for (const Document& document : batch.documents()) {
    const int64_t last = document.first + document.count - 1;
    const float weight = batch.weights() == nullptr ? 1 : batch.weights()[last];
    if (weight == 0) continue;
    all.first.push_back(document.first);
    all.classes.push_back(count == 1 ? number_bits(batch, last) : class_at(batch, last, count));
    all.weights.push_back(weight);
  }
  if (all.first.empty()) throw Error("a batch without a labelled text");
  return all;
}

void sum_by_document(const Batch& batch, std::span<const float> values, std::span<double> sums) {
  for (size_t i = 0; i < sums.size(); ++i) {
    const Document& document = batch.documents()[i];
    sums[i] = 0;
    for (int64_t at = 0; at < document.count; ++at) {
      sums[i] += values[static_cast<size_t>(document.first + at)];
    }
  }
}

void check_tokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocabulary) continue;
    throw Error(fmt::format("token {} at index {} is outside the model's vocabulary of {}",
                            tokens[i], i, vocabulary));
  }
}

}  // namespace thinwire::model
