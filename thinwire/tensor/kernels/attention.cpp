#include "thinwire/tensor/kernels/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <type_traits>

#include "thinwire/tensor/kernels/attention_tiles.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/few_rows.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

// Keys as the right operand of their product with queries: [T, D] as stored, or [D, T], which the
// BLAS multiplies faster.
struct KeyOperand {
  const float* data;
  int64_t stride;
  Transpose transpose;
  const float* at(int64_t position) const {
    return data + (transpose == Transpose::kYes ? position * stride : position);
  }
};

// Copies rotated keys and unrotated values of all positions to scratch.
template <typename T>
void load_keys_values(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                      const HeadColumns<const T>& columns, AttentionScratch& scratch) {
  const Kernels<T>& kernel = kernels<T>();
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  kernel.rotate_load(Rotation::kForward, sequence, d, rope.cosine(0), rope.sine(0), 1.0f,
                     columns.key, stride, scratch.key.data(), d);
  kernel.load_rows(sequence, d, nullptr, columns.value, stride, scratch.value.data(), d);
  kernel.transpose(sequence, d, scratch.key.data(), d, scratch.key_t.data(), scratch.stride);
}

// Rotated and scaled queries of positions [first, first + rows) of one head.
template <typename T>
void load_queries(const AttentionShape& shape, const RopeTable& rope, int64_t first, int64_t rows,
                  const T* query, AttentionScratch& scratch) {
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  kernels<T>().rotate_load(Rotation::kForward, rows, d, rope.cosine(first), rope.sine(first),
                           shape.score_scale(), query + first * stride, stride,
                           scratch.query.data(), d);
}

// Computes what the gradients of one head need from its output and the output's gradient.
template <typename T>
void load_output_gradient(const AttentionShape& shape, int64_t sequence, const T* out,
                          const T* dout, AttentionScratch& s) {
  const Kernels<T>& kernel = kernels<T>();
  const int64_t d = shape.head_size, width = shape.width();
  kernel.load_rows(sequence, d, nullptr, dout, width, s.doutput.data(), d);
  kernel.row_dots(sequence, d, out, width, dout, width, s.row_dots.data());
}

// Adds the mutual gradient contributions of the queries [first, first + rows) and the kKeyBlock
// keys from `key` on, or those that they see. The first tile of queries sets dquery.
void backward_tile(const AttentionShape& shape, int64_t sequence, int64_t first, int64_t rows,
                   int64_t key, const float* log_sum_exp, AttentionScratch& s) {
  const int64_t d = shape.head_size;
  const bool sets = key <= shape.first_seen(first);
  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  const int64_t columns = std::min(kKeyBlock, shape.seen_end(first + rows, sequence) - key);
  const int64_t stride = columns + kTilePad;
  float* const p = s.scores.data();
  float* const dp = s.dscores.data();
  const float* const queries = s.query.data() + first * d;
  const float* const doutput = s.doutput.data() + first * d;
  const float* const keys = s.key.data() + key * d;
  gemm(kNo, kNo, rows, columns, d, queries, d, s.key_t.data() + key, s.stride, 0, p, stride);
  gemm(kNo, kNo, rows, columns, d, doutput, d, s.value_t.data() + key, s.stride, 0, dp, stride);
  kernels<float>().causal_softmax_backward(rows, columns, shape.visible(first, key, columns),
                                           shape.reach(), log_sum_exp + first,
                                           s.row_dots.data() + first, p, dp, stride);
  gemm(kYes, kNo, columns, d, rows, p, stride, doutput, d, 1, s.dvalue.data() + key * d, d);
  gemm(kYes, kNo, columns, d, rows, dp, stride, queries, d, 1, s.dkey.data() + key * d, d);
  gemm(kNo, kNo, rows, d, columns, dp, stride, keys, d, sets ? 0.0f : 1.0f,
       s.dquery.data() + first * d, d);
}

// Gradients of one head: overwrites its queries and adds to dkey and dvalue. A block of keys and
// its gradients stay in the cache while the queries go by.
template <typename T>
void backward_head(const AttentionShape& shape, const RopeTable& rope, int64_t sequence, T* query,
                   const T* out, const T* dout, const float* log_sum_exp, AttentionScratch& s) {
  const int64_t d = shape.head_size;
  load_queries<T>(shape, rope, 0, sequence, query, s);
  load_output_gradient<T>(shape, sequence, out, dout, s);
  for (int64_t key = 0; key < sequence; key += kKeyBlock) {
    for (int64_t first = shape.causal ? key : 0; first < sequence; first += kQueryBlock) {
      if (shape.first_seen(first) >= key + kKeyBlock) break;
      backward_tile(shape, sequence, first, std::min(kQueryBlock, sequence - first), key,
                    log_sum_exp, s);
    }
  }
  kernels<T>().rotate_store(Rotation::kInverse, sequence, d, rope.cosine(0), rope.sine(0),
                            shape.score_scale(), s.dquery.data(), d, query, shape.qkv_width());
}

// attend() of attention.h, of queries that see positions before `end`.
void attend_keys(const AttentionShape& shape, int64_t rows, int64_t first, int64_t end,
                 const float* query, const KeyOperand& key, const float* value, float* scores,
                 float* out, float* inverse_sum, float* log_sum_exp) {
  assert(rows <= kQueryBlock);
  const int64_t head_size = shape.head_size, begin = shape.first_seen(first);
  const Kernels<float>& kernel = kernels<float>();
  const bool few = rows <= kFewRows && key.transpose == Transpose::kYes;  // as in decoding
  float* const sum = inverse_sum;
  float* const largest = log_sum_exp;
  float rescale[kQueryBlock];
  std::fill_n(sum, rows, 0.0f);
  std::fill_n(largest, rows, -std::numeric_limits<float>::infinity());
  for (int64_t at = begin; at < end; at += kKeyBlock) {
    const int64_t columns = std::min(kKeyBlock, end - at), stride = columns + kTilePad;
    if (few) {
      multiply_few_rows(rows, columns, head_size, query, head_size, key.at(at), scores, stride);
    } else {
      gemm(Transpose::kNo, key.transpose, rows, columns, head_size, query, head_size, key.at(at),
           key.stride, 0, scores, stride);
    }
    kernel.causal_softmax_tile(rows, columns, shape.visible(first, at, columns), shape.reach(),
                               scores, stride, scores, largest, sum, rescale);
    if (at > begin) kernel.load_rows(rows, head_size, rescale, out, head_size, out, head_size);
    if (few) {
      sum_weighted_rows(rows, columns, head_size, scores, stride, value + at * head_size,
                        at > begin, out, head_size);
    } else {
      gemm(Transpose::kNo, Transpose::kNo, rows, head_size, columns, scores, stride,
           value + at * head_size, head_size, at == begin ? 0.0f : 1.0f, out, head_size);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    log_sum_exp[r] = largest[r] + std::log(sum[r]);
    inverse_sum[r] = 1.0f / sum[r];
  }
}

}  // namespace

float AttentionShape::score_scale() const {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
}

AttentionScratch::AttentionScratch(int64_t sequence, int64_t head_size, const Bf16Tiles* products) {
  if (products != nullptr) {
    tiles = std::make_unique<AttentionTiles>(*products, sequence, head_size);
    return;
  }
  stride = (sequence + kTilePad - 1) / kTilePad * kTilePad + kTilePad;
  const int64_t rows = std::min(sequence, kQueryBlock);
  for (auto* buffer : {&key, &value, &dkey, &dvalue, &query, &doutput, &dquery}) {
    *buffer = AlignedBuffer<float>(sequence * head_size);
  }
  for (auto* buffer : {&key_t, &value_t}) *buffer = AlignedBuffer<float>(head_size * stride);
  row_dots = AlignedBuffer<float>(sequence);
  output = AlignedBuffer<float>(rows * head_size);
  for (auto* buffer : {&scores, &dscores}) {
    *buffer = AlignedBuffer<float>(rows * (std::min(sequence, kKeyBlock) + kTilePad));
  }
  for (auto* buffer : {&inverse_sum, &log_sum_exp}) *buffer = AlignedBuffer<float>(rows);
}

AttentionScratch::AttentionScratch(AttentionScratch&&) noexcept = default;
AttentionScratch::~AttentionScratch() = default;

size_t AttentionScratch::bytes() const {
  size_t sum = tiles == nullptr ? 0 : tiles->bytes();
  for (const auto* buffer :
       {&key, &value, &dkey, &dvalue, &query, &output, &doutput, &dquery, &key_t, &value_t, &scores,
        &dscores, &inverse_sum, &log_sum_exp, &row_dots}) {
    sum += buffer->bytes();
  }
  return sum;
}

void attend(const AttentionShape& shape, int64_t rows, int64_t first, const float* query,
            const float* key, const float* value, float* scores, float* out, float* inverse_sum,
            float* log_sum_exp) {
  attend_keys(shape, rows, first, first + rows, query, {key, shape.head_size, Transpose::kYes},
              value, scores, out, inverse_sum, log_sum_exp);
}

template <typename T>
void attention_forward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                       int64_t kv_head, const T* qkv, T* out, float* log_sum_exp,
                       AttentionScratch& scratch) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (scratch.tiles != nullptr) {
      return attention_forward(shape, rope, sequence, kv_head, qkv, out, log_sum_exp,
                               *scratch.tiles);
    }
  }
  const int64_t d = shape.head_size;
  load_keys_values<T>(shape, rope, sequence, HeadColumns<const T>(shape, kv_head, qkv), scratch);
  for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (int64_t first = 0; first < sequence; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, sequence - first);
      load_queries<T>(shape, rope, first, rows, qkv + head * d, scratch);
      attend_keys(shape, rows, first, shape.seen_end(first + rows, sequence), scratch.query.data(),
                  {scratch.key_t.data(), scratch.stride, Transpose::kNo}, scratch.value.data(),
                  scratch.scores.data(), scratch.output.data(), scratch.inverse_sum.data(),
                  log_sum_exp + head * sequence + first);
      kernels<T>().store_rows(rows, d, scratch.inverse_sum.data(), scratch.output.data(), d,
                              out + first * shape.width() + head * d, shape.width());
    }
  }
}

template <typename T>
void attention_backward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                        int64_t kv_head, T* qkv, const T* out, const T* dout,
                        const float* log_sum_exp, AttentionScratch& scratch) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (scratch.tiles != nullptr) {
      return attention_backward(shape, rope, sequence, kv_head, qkv, out, dout, log_sum_exp,
                                *scratch.tiles);
    }
  }
  const Kernels<T>& kernel = kernels<T>();
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  const HeadColumns<T> columns(shape, kv_head, qkv);
  load_keys_values<T>(shape, rope, sequence, HeadColumns<const T>(shape, kv_head, qkv), scratch);
  kernel.transpose(sequence, d, scratch.value.data(), d, scratch.value_t.data(), scratch.stride);
  std::fill_n(scratch.dkey.data(), sequence * d, 0.0f);
  std::fill_n(scratch.dvalue.data(), sequence * d, 0.0f);
  for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    backward_head<T>(shape, rope, sequence, qkv + head * d, out + head * d, dout + head * d,
                     log_sum_exp + head * sequence, scratch);
  }
  kernel.rotate_store(Rotation::kInverse, sequence, d, rope.cosine(0), rope.sine(0), 1.0f,
                      scratch.dkey.data(), d, columns.key, stride);
  kernel.store_rows(sequence, d, nullptr, scratch.dvalue.data(), d, columns.value, stride);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(T)                                                                   \
  template void attention_forward(const AttentionShape&, const RopeTable&, int64_t, int64_t,      \
                                  const T*, T*, float*, AttentionScratch&);                       \
  template void attention_backward(const AttentionShape&, const RopeTable&, int64_t, int64_t, T*, \
                                   const T*, const T*, const float*, AttentionScratch&)
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::tensor
