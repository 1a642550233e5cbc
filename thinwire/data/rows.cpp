#include "thinwire/data/rows.h"

#include <fmt/format.h>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"

namespace thinwire::data {

Rows::Rows(const TokenSet& tokens, int64_t sequence, uint64_t seed)
    : tokens_(&tokens), sequence_(sequence), seed_(seed) {
  if (sequence < 1) throw UsageError(fmt::format("train.sequence must be >= 1, got {}", sequence));
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

Rows Rows::ordered(const TokenSet& tokens, int64_t sequence) {
  Rows rows(tokens, sequence, 0);
  rows.permute_ = false;
  return rows;
}

uint64_t Rows::place(uint64_t index) const {
  const uint64_t at = index % count_;
  return permute_ ? permuted(at, count_, derive_seed(seed_, index / count_)) : at;
}

void Rows::row(uint64_t index, std::span<int32_t> out) const {
  if (out.size() != static_cast<size_t>(sequence_) + 1) {
    throw Error(fmt::format("a row has {} tokens, {} were requested", sequence_ + 1, out.size()));
  }
  tokens_->read(place(index) * static_cast<uint64_t>(sequence_), out);
}

}  // namespace thinwire::data
