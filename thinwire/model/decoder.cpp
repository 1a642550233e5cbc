#include "thinwire/model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "thinwire/base/error.h"
#include "thinwire/model/batch.h"

namespace thinwire::model {

Decoder::Decoder(const DecoderParts& parts, MakeGraph make)
    : vocabulary_(parts.model.vocab), context_(parts.context) {
  if (context_ < 1) {
    throw Error(fmt::format("the context must be >= 1 token, got {}", context_));
  }
  decoding_ = make_decoding(parts);
  graph_ = make(decoding_->ops(), parts.model, parts.params.layout(), Purpose::kDecoding);
  logits_.resize(static_cast<size_t>(vocabulary_));
}

Decoder::~Decoder() = default;

std::span<const float> Decoder::prefill(std::span<const int32_t> tokens) {
  int64_t last = 0;
  append(tokens, [&](int64_t rows) { last = rows - 1; });
  compute_logits(last);
  return logits_;
}

void Decoder::prefill_each(std::span<const int32_t> tokens,
                           const std::function<void(std::span<const float> logits)>& take) {
  append(tokens, [&](int64_t rows) {
    for (int64_t row = 0; row < rows; ++row) {
      compute_logits(row);
      take(logits_);
    }
  });
}

void Decoder::rewind(int64_t position) {
  assert(position >= 0 && position <= position_);
  position_ = position;
}

void Decoder::append(std::span<const int32_t> tokens,
                     const std::function<void(int64_t rows)>& done) {
  if (tokens.empty()) throw Error("there are no tokens to continue from");
  check_tokens(tokens, vocabulary_);
  const auto count = static_cast<int64_t>(tokens.size());
  if (count > context_ - position_) {
    throw Error(fmt::format("the context of {} tokens is full: {} are in it, {} more do not fit",
                            context_, position_, count));
  }
  decoding_->grow_to(position_ + count);
  const int64_t chunk = decoding_->chunk();
  for (int64_t first = 0; first < count; first += chunk) {
    const int64_t size = std::min(chunk, count - first);
    decoding_->begin_tokens(tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(size)),
                            {{.row = 0, .count = size, .position = position_}});
    graph_->forward(false);
    position_ += size;
    done(size);
  }
}

void Decoder::compute_logits(int64_t row) {
  const Head head = graph_->head();
  decoding_->logits(head.x_NC, {&row, 1}, head.weight, logits_);
}

}  // namespace thinwire::model
