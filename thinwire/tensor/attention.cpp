#include "thinwire/tensor/attention.h"

#include <algorithm>
#include <cmath>

#include "thinwire/tensor/gemm.h"
#include "thinwire/tensor/kernels.h"

namespace thinwire::tensor {
namespace {

// Where one key/value head and its query heads lie in the rows of qkv and out.
template <typename T>
struct HeadColumns {
  HeadColumns(const AttentionShape& shape, int64_t kv_head, T* qkv)
      : key(qkv + (shape.heads + kv_head) * shape.head_size),
        value(qkv + (shape.heads + shape.kv_heads + kv_head) * shape.head_size) {}
  T* key;
  T* value;
};

// Rotated keys and plain values of all positions into scratch.
template <typename T>
void load_keys_values(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                      const HeadColumns<const T>& columns, AttentionScratch& scratch) {
  const Kernels<T>& kernel = kernels<T>();
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  kernel.rotate_load(Rotation::kForward, sequence, d, rope.cosine(0), rope.sine(0), 1.0f,
                     columns.key, stride, scratch.key.data(), d);
  kernel.load_rows(sequence, d, nullptr, columns.value, stride, scratch.value.data(), d);
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

// Gradients of one block of queries: overwrites the block's queries and adds to dkey and dvalue.
template <typename T>
void backward_block(const AttentionShape& shape, const RopeTable& rope, int64_t first, int64_t rows,
                    T* query, const T* out, const T* dout, const float* log_sum_exp,
                    AttentionScratch& s) {
  const Kernels<T>& kernel = kernels<T>();
  const int64_t d = shape.head_size, stride = shape.qkv_width(), seen = first + rows;
  load_queries<T>(shape, rope, first, rows, query, s);
  kernel.load_rows(rows, d, nullptr, out + first * shape.width(), shape.width(), s.output.data(),
                   d);
  kernel.load_rows(rows, d, nullptr, dout + first * shape.width(), shape.width(), s.doutput.data(),
                   d);
  kernel.row_dots(rows, d, s.output.data(), d, s.doutput.data(), d, s.row_dots.data());

  constexpr Transpose kNo = Transpose::kNo, kYes = Transpose::kYes;
  float* p = s.scores.data();
  float* dp = s.dscores.data();
  gemm(kNo, kYes, rows, seen, d, s.query.data(), d, s.key.data(), d, 0, p, seen);
  gemm(kNo, kYes, rows, seen, d, s.doutput.data(), d, s.value.data(), d, 0, dp, seen);
  kernel.causal_softmax_backward(rows, seen, first + 1, log_sum_exp + first, s.row_dots.data(), p,
                                 dp, seen);
  gemm(kYes, kNo, seen, d, rows, p, seen, s.doutput.data(), d, 1, s.dvalue.data(), d);
  gemm(kYes, kNo, seen, d, rows, dp, seen, s.query.data(), d, 1, s.dkey.data(), d);
  gemm(kNo, kNo, rows, d, seen, dp, seen, s.key.data(), d, 0, s.dquery.data(), d);
  kernel.rotate_store(Rotation::kInverse, rows, d, rope.cosine(first), rope.sine(first),
                      shape.score_scale(), s.dquery.data(), d, query + first * stride, stride);
}

}  // namespace

float AttentionShape::score_scale() const {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_size)));
}

RopeTable::RopeTable(int64_t positions, int64_t head_size, double theta) : half_(head_size / 2) {
  cosine_.reserve(static_cast<size_t>(positions * half_));
  sine_.reserve(static_cast<size_t>(positions * half_));
  for (int64_t position = 0; position < positions; ++position) {
    for (int64_t i = 0; i < half_; ++i) {
      const double frequency = std::pow(theta, -2.0 * static_cast<double>(i) / head_size);
      const double angle = static_cast<double>(position) * frequency;
      cosine_.push_back(static_cast<float>(std::cos(angle)));
      sine_.push_back(static_cast<float>(std::sin(angle)));
    }
  }
}

AttentionScratch::AttentionScratch(int64_t sequence, int64_t head_size) {
  const int64_t rows = std::min(sequence, kQueryBlock);
  for (auto* buffer : {&key, &value, &dkey, &dvalue}) {
    *buffer = AlignedBuffer<float>(sequence * head_size);
  }
  for (auto* buffer : {&query, &output, &doutput, &dquery}) {
    *buffer = AlignedBuffer<float>(rows * head_size);
  }
  for (auto* buffer : {&scores, &dscores}) *buffer = AlignedBuffer<float>(rows * sequence);
  for (auto* buffer : {&inverse_sum, &log_sum_exp, &row_dots}) {
    *buffer = AlignedBuffer<float>(rows);
  }
}

size_t AttentionScratch::bytes() const {
  size_t sum = 0;
  for (const auto* buffer : {&key, &value, &dkey, &dvalue, &query, &output, &doutput, &dquery,
                             &scores, &dscores, &inverse_sum, &log_sum_exp, &row_dots}) {
    sum += buffer->bytes();
  }
  return sum;
}

void attend(int64_t rows, int64_t first, int64_t head_size, const float* query, const float* key,
            const float* value, float* scores, float* out, float* inverse_sum, float* log_sum_exp) {
  const int64_t seen = first + rows;
  gemm(Transpose::kNo, Transpose::kYes, rows, seen, head_size, query, head_size, key, head_size, 0,
       scores, seen);
  kernels<float>().causal_softmax(rows, seen, first + 1, scores, seen, inverse_sum, log_sum_exp);
  gemm(Transpose::kNo, Transpose::kNo, rows, head_size, seen, scores, seen, value, head_size, 0,
       out, head_size);
}

template <typename T>
void attention_forward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                       int64_t kv_head, const T* qkv, T* out, float* log_sum_exp,
                       AttentionScratch& scratch) {
  const int64_t d = shape.head_size;
  load_keys_values<T>(shape, rope, sequence, HeadColumns<const T>(shape, kv_head, qkv), scratch);
  for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (int64_t first = 0; first < sequence; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, sequence - first);
      load_queries<T>(shape, rope, first, rows, qkv + head * d, scratch);
      attend(rows, first, d, scratch.query.data(), scratch.key.data(), scratch.value.data(),
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
  const Kernels<T>& kernel = kernels<T>();
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  const HeadColumns<T> columns(shape, kv_head, qkv);
  load_keys_values<T>(shape, rope, sequence, HeadColumns<const T>(shape, kv_head, qkv), scratch);
  std::fill_n(scratch.dkey.data(), sequence * d, 0.0f);
  std::fill_n(scratch.dvalue.data(), sequence * d, 0.0f);
  for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (int64_t first = 0; first < sequence; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, sequence - first);
      backward_block<T>(shape, rope, first, rows, qkv + head * d, out + head * d, dout + head * d,
                        log_sum_exp + head * sequence, scratch);
    }
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
