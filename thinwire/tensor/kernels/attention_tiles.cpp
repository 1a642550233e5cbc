#include "thinwire/tensor/kernels/attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "thinwire/tensor/kernels/kernels.h"

namespace thinwire::tensor {
namespace {

constexpr int64_t kScoreStride = kKeyBlock + kTilePad;

constexpr int64_t even(int64_t count) { return (count + 1) / 2 * 2; }
constexpr int64_t whole_panels(int64_t columns) {
  return (columns + kPanelColumns - 1) / kPanelColumns * kPanelColumns;
}

// The transpose of rows [T, D] as a right operand: one panel for each panel_columns positions.
void pack_transposed(int64_t sequence, int64_t d, const Bf16* from, int64_t stride,
                     AlignedBuffer<Bf16>& to, const AttentionTiles& s) {
  const int64_t width = s.tiles.panel_columns;
  pack_panels(Transpose::kYes, d, sequence, from, stride, to.data(), width * d, width);
}

// Rows [T, D] as a right operand.
void pack_columns(int64_t sequence, int64_t d, const Bf16* from, int64_t stride,
                  AlignedBuffer<Bf16>& to, const AttentionTiles& s) {
  pack_panels(Transpose::kNo, sequence, d, from, stride, to.data(), s.panel, s.tiles.panel_columns);
}

// What pack_transposed() has made, from the first position of a panel on.
RightPanels<Bf16> from_column(const AlignedBuffer<Bf16>& transposed, int64_t d, int64_t position,
                              const AttentionTiles& s) {
  return {transposed.data() + position * d, s.tiles.panel_columns * d};
}
// What pack_columns() has made, from an even position on.
RightPanels<Bf16> from_row(const AlignedBuffer<Bf16>& pairs, int64_t position,
                           const AttentionTiles& s) {
  return {pairs.data() + position * s.tiles.panel_columns, s.panel};
}

// Rotated rows of positions [first, first + rows), in bf16.
void rotate_rows(const RopeTable& rope, int64_t first, int64_t rows, int64_t d, float scale,
                 const Bf16* from, int64_t stride, Bf16* to, AttentionTiles& s) {
  const Kernels<Bf16>& kernel = kernels<Bf16>();
  for (int64_t done = 0; done < rows; done += kQueryBlock) {
    const int64_t count = std::min(kQueryBlock, rows - done), at = first + done;
    kernel.rotate_load(Rotation::kForward, count, d, rope.cosine(at), rope.sine(at), scale,
                       from + at * stride, stride, s.rotated.data(), d);
    kernel.store_rows(count, d, nullptr, s.rotated.data(), d, to + done * d, d);
  }
}

// Results of one block of queries of one head, from positions [begin, end) on.
void attend_block(const AttentionShape& shape, int64_t first, int64_t rows, int64_t begin,
                  int64_t end, float* log_sum_exp, AttentionTiles& s) {
  const Kernels<Bf16>& kernel = kernels<Bf16>();
  const int64_t d = shape.head_size;
  float* const sum = s.inverse_sum.data();
  float* const out = s.output.data();
  float rescale[kQueryBlock];
  std::fill_n(sum, rows, 0.0f);
  std::fill_n(log_sum_exp, rows, -std::numeric_limits<float>::infinity());
  for (int64_t at = begin; at < end; at += kKeyBlock) {
    const int64_t columns = std::min(kKeyBlock, end - at);
    s.tiles.multiply(rows, columns, d / 2, {s.query.data(), d, 2}, from_column(s.key_t, d, at, s),
                     {}, s.scores.data(), kScoreStride);
    kernel.causal_softmax_tile(rows, columns, shape.visible(first, at, columns), shape.reach(),
                               s.scores.data(), kScoreStride, s.p.data(), log_sum_exp, sum,
                               rescale);
    if (at > begin) kernels<float>().load_rows(rows, d, rescale, out, d, out, d);
    const OldSums old = at > begin ? OldSums{out, d} : OldSums{};
    s.tiles.multiply(rows, d, even(columns) / 2, {s.p.data(), kScoreStride, 2},
                     from_row(s.value_pairs, at, s), old, out, d);
  }
  for (int64_t r = 0; r < rows; ++r) {
    log_sum_exp[r] += std::log(sum[r]);
    sum[r] = 1.0f / sum[r];
  }
}

// Adds the mutual gradient contributions of the queries [first, first + rows) and the kKeyBlock
// keys from `key` on, or those that they see. The first tile of queries sets dquery. dout: of this
// head, rows `stride` apart.
void backward_tile(const AttentionShape& shape, int64_t sequence, int64_t first, int64_t rows,
                   int64_t key, const Bf16* dout, int64_t stride, const float* log_sum_exp,
                   AttentionTiles& s) {
  const int64_t d = shape.head_size;
  const int64_t columns = std::min(kKeyBlock, shape.seen_end(first + rows, sequence) - key);
  const auto multiply = s.tiles.multiply;
  multiply(rows, columns, d / 2, {s.query.data() + first * d, d, 2},
           from_column(s.key_t, d, key, s), {}, s.scores.data(), kScoreStride);
  multiply(rows, columns, d / 2, {dout + first * stride, stride, 2},
           from_column(s.value_t, d, key, s), {}, s.dscores.data(), kScoreStride);
  const SoftmaxPairs to = {s.p_pairs.data(), s.ds_pairs.data(), s.ds.data(), kScoreStride};
  kernels<Bf16>().causal_softmax_backward_pairs(
      rows, columns, shape.visible(first, key, columns), shape.reach(), log_sum_exp + first,
      s.row_dots.data() + first, s.scores.data(), s.dscores.data(), kScoreStride, to);
  float* const dvalue = s.dvalue.data() + key * d;
  float* const dkey = s.dkey.data() + key * d;
  float* const dquery = s.dquery.data() + first * d;
  multiply(columns, d, even(rows) / 2, {s.p_pairs.data(), 2, 2 * kScoreStride},
           from_row(s.dout_pairs, first, s), {dvalue, d}, dvalue, d);
  multiply(columns, d, even(rows) / 2, {s.ds_pairs.data(), 2, 2 * kScoreStride},
           from_row(s.query_pairs, first, s), {dkey, d}, dkey, d);
  const bool sets = key <= shape.first_seen(first);
  multiply(rows, d, even(columns) / 2, {s.ds.data(), kScoreStride, 2},
           from_row(s.key_pairs, key, s), sets ? OldSums{} : OldSums{dquery, d}, dquery, d);
}

// Gradients of one head: overwrites its queries and adds to dkey and dvalue. A block of keys and
// its gradients stay in the cache while the queries go by.
void backward_head(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                   Bf16* query, const Bf16* out, const Bf16* dout, const float* log_sum_exp,
                   AttentionTiles& s) {
  const Kernels<Bf16>& kernel = kernels<Bf16>();
  const int64_t d = shape.head_size, stride = shape.qkv_width(), width = shape.width();
  rotate_rows(rope, 0, sequence, d, shape.score_scale(), query, stride, s.query.data(), s);
  pack_columns(sequence, d, s.query.data(), d, s.query_pairs, s);
  pack_columns(sequence, d, dout, width, s.dout_pairs, s);
  kernel.row_dots(sequence, d, out, width, dout, width, s.row_dots.data());
  for (int64_t key = 0; key < sequence; key += kKeyBlock) {
    for (int64_t first = shape.causal ? key : 0; first < sequence; first += kQueryBlock) {
      if (shape.first_seen(first) >= key + kKeyBlock) break;
      backward_tile(shape, sequence, first, std::min(kQueryBlock, sequence - first), key, dout,
                    width, log_sum_exp, s);
    }
  }
  kernel.rotate_store(Rotation::kInverse, sequence, d, rope.cosine(0), rope.sine(0),
                      shape.score_scale(), s.dquery.data(), d, query, stride);
}

}  // namespace

AttentionTiles::AttentionTiles(const Bf16Tiles& products, int64_t sequence, int64_t head_size)
    : tiles(products), panel(even(sequence) * products.panel_columns) {
  for (auto* buffer : {&key, &query}) *buffer = AlignedBuffer<Bf16>(sequence * head_size);
  for (auto* buffer : {&key_t, &value_t}) {
    *buffer = AlignedBuffer<Bf16>(whole_panels(sequence) * head_size);
  }
  for (auto* buffer : {&key_pairs, &value_pairs, &query_pairs, &dout_pairs}) {
    *buffer = AlignedBuffer<Bf16>(even(sequence) * whole_panels(head_size));
  }
  for (auto* buffer : {&dkey, &dvalue, &dquery}) {
    *buffer = AlignedBuffer<float>(sequence * head_size);
  }
  row_dots = AlignedBuffer<float>(sequence);
  for (auto* buffer : {&rotated, &output}) *buffer = AlignedBuffer<float>(kQueryBlock * head_size);
  for (auto* buffer : {&scores, &dscores}) {
    *buffer = AlignedBuffer<float>(kQueryBlock * kScoreStride);
  }
  for (auto* buffer : {&p, &ds, &p_pairs, &ds_pairs}) {
    *buffer = AlignedBuffer<Bf16>(kQueryBlock * kScoreStride);
  }
  inverse_sum = AlignedBuffer<float>(kQueryBlock);
}

size_t AttentionTiles::bytes() const {
  size_t sum = 0;
  for (const auto* buffer : {&key, &query, &key_t, &value_t, &key_pairs, &value_pairs, &query_pairs,
                             &dout_pairs, &p, &ds, &p_pairs, &ds_pairs}) {
    sum += buffer->bytes();
  }
  for (const auto* buffer :
       {&dkey, &dvalue, &dquery, &row_dots, &rotated, &output, &scores, &dscores, &inverse_sum}) {
    sum += buffer->bytes();
  }
  return sum;
}

void attention_forward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                       int64_t kv_head, const Bf16* qkv, Bf16* out, float* log_sum_exp,
                       AttentionTiles& s) {
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  const HeadColumns<const Bf16> columns(shape, kv_head, qkv);
  rotate_rows(rope, 0, sequence, d, 1.0f, columns.key, stride, s.key.data(), s);
  pack_transposed(sequence, d, s.key.data(), d, s.key_t, s);
  pack_columns(sequence, d, columns.value, stride, s.value_pairs, s);
  for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    for (int64_t first = 0; first < sequence; first += kQueryBlock) {
      const int64_t rows = std::min(kQueryBlock, sequence - first);
      rotate_rows(rope, first, rows, d, shape.score_scale(), qkv + head * d, stride, s.query.data(),
                  s);
      // Panels of keys begin at multiples of their width; the mask hides what is seen no more.
      const int64_t begin = shape.first_seen(first) / kPanelColumns * kPanelColumns;
      attend_block(shape, first, rows, begin, shape.seen_end(first + rows, sequence),
                   log_sum_exp + head * sequence + first, s);
      kernels<Bf16>().store_rows(rows, d, s.inverse_sum.data(), s.output.data(), d,
                                 out + first * shape.width() + head * d, shape.width());
    }
  }
  s.tiles.release();
}

void attention_backward(const AttentionShape& shape, const RopeTable& rope, int64_t sequence,
                        int64_t kv_head, Bf16* qkv, const Bf16* out, const Bf16* dout,
                        const float* log_sum_exp, AttentionTiles& s) {
  const Kernels<Bf16>& kernel = kernels<Bf16>();
  const int64_t d = shape.head_size, stride = shape.qkv_width();
  const HeadColumns<Bf16> columns(shape, kv_head, qkv);
  rotate_rows(rope, 0, sequence, d, 1.0f, columns.key, stride, s.key.data(), s);
  pack_transposed(sequence, d, s.key.data(), d, s.key_t, s);
  pack_transposed(sequence, d, columns.value, stride, s.value_t, s);
  pack_columns(sequence, d, s.key.data(), d, s.key_pairs, s);
  std::fill_n(s.dkey.data(), sequence * d, 0.0f);
  std::fill_n(s.dvalue.data(), sequence * d, 0.0f);
  for (int64_t head = kv_head * shape.group(); head < (kv_head + 1) * shape.group(); ++head) {
    backward_head(shape, rope, sequence, qkv + head * d, out + head * d, dout + head * d,
                  log_sum_exp + head * sequence, s);
  }
  kernel.rotate_store(Rotation::kInverse, sequence, d, rope.cosine(0), rope.sine(0), 1.0f,
                      s.dkey.data(), d, columns.key, stride);
  kernel.store_rows(sequence, d, nullptr, s.dvalue.data(), d, columns.value, stride);
  s.tiles.release();
}

}  // namespace thinwire::tensor
