// A row of texts whose classes or numbers an encoder predicts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/model/batch.h"

namespace thinwire::eval {

// Texts one after another in a row, as records of labels lie there: each with tokens in the place
// of its class or number, which begin a document of their own.
class TextRow {
 public:
  // Whether a text of `count` tokens may be added to a row of at most `longest`; a first one always
  // may.
  bool fits(size_t count, int64_t longest) const {
    return tokens_.empty() || std::ssize(tokens_) + static_cast<int64_t>(count) <= longest;
  }
  // The text must not be empty. target: tokens in the place of a class or number
  // (base/number_tokens.h), at least 1, which nothing looks at.
  void add(std::span<const int32_t> text, size_t target) {
    ++texts_;
    begins_.push_back(1);
    begins_.insert(begins_.end(), text.size() - 1, 0);
    begins_.push_back(1);
    begins_.insert(begins_.end(), target - 1, 0);
    weights_.insert(weights_.end(), text.size() - 1, 0.0F);
    weights_.push_back(1.0F);
    weights_.insert(weights_.end(), target, 0.0F);
    tokens_.insert(tokens_.end(), text.begin(), text.end());
    tokens_.insert(tokens_.end(), target, 0);
  }

  int64_t texts() const { return texts_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  // The last token is a target only, not an input.
  int64_t predictions() const { return std::ssize(tokens_) - 1; }
  // The marks of the predictions; valid until the row changes.
  model::RowMarks marks() const {
    const auto count = static_cast<size_t>(predictions());
    return {std::span(weights_).first(count), std::span(begins_).first(count)};
  }

 private:
  std::vector<int32_t> tokens_;
  std::vector<float> weights_;
  std::vector<uint8_t> begins_;
  int64_t texts_ = 0;
};

}  // namespace thinwire::eval
