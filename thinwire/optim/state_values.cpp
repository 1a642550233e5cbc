#include "thinwire/optim/state_values.h"

#include <algorithm>

#include "thinwire/base/error.h"

namespace thinwire::optim {

float* StateValues::read(int64_t at, int64_t count, float* scratch) const {
  assert(at % kStateBlock == 0);
  switch (format_) {
    case StateFormat::kF32:
      return exact_ + at;
    case StateFormat::kBf16:
      tensor::widen(bf16_ + at, count, scratch);
      break;
    case StateFormat::k8Bit:
      tensor::decode_blocks(code_, codes_ + at, exponents_ + at / kStateBlock, count, scratch);
      break;
  }
  return scratch;
}

void StateValues::keep(int64_t at, int64_t count, const float* values, uint64_t step) const {
  if (is_exact()) return;
  const uint64_t key =
      tensor::rounding_key(randomness_.seed, randomness_.kind, randomness_.tensor, step);
  if (format_ == StateFormat::kBf16) {
    return tensor::round_stochastically(values, count, key, at, bf16_ + at);
  }
  if (tensor::encode_blocks(code_, values, count, key, at, codes_ + at,
                            exponents_ + at / kStateBlock)) {
    return;
  }
  throw Error(
      "optimizer state is no longer finite; lower optim.lr or raise schedule.warmup; earlier "
      "checkpoints are kept");
}

std::vector<float> StateValues::read_all(ThreadPool& threads) const {
  std::vector<float> values(static_cast<size_t>(size_));
  threads.for_ranges(size_, kPiece, [&](int64_t begin, int64_t end, int) {
    float* const to = values.data() + begin;
    const float* const from = read(begin, end - begin, to);
    if (from != to) std::copy_n(from, end - begin, to);
  });
  return values;
}

void StateValues::keep_all(std::span<const float> values, uint64_t step,
                           ThreadPool& threads) const {
  threads.for_ranges(size_, kPiece, [&](int64_t begin, int64_t end, int) {
    if (is_exact()) {
      std::copy_n(values.data() + begin, end - begin, exact_ + begin);
    } else {
      keep(begin, end - begin, values.data() + begin, step);
    }
  });
}

}  // namespace thinwire::optim
