// The element-wise and row-wise passes of a transformer between its matrix products, fused so that
// each value is read and written once. T is float or Bf16, the type of operands of matrix products;
// arithmetic is fp32. All functions compute on the calling thread, on consecutive rows; rows are
// independent, so callers can split them over threads. Buffers must not overlap unless stated.
//
// Shape suffixes: R rows, W row width, F width of the MLP, V vocabulary.
#pragma once

#include <cstdint>

#include "thinwire/base/half.h"

namespace thinwire::tensor {

enum class Rotation : uint8_t { kForward, kInverse };

// What norm_groups() norms.
struct NormGroups {
  int64_t rows, groups, width;  // of a group
  int64_t stride;               // between rows of x, dout and dx
  int64_t raw_stride;           // between rows of raw
  int64_t rstd_stride;          // between rows of rstd
};

// Results of causal_softmax_backward_pairs(): probabilities and gradients of scores with two rows
// interleaved in pairs, [R / 2, columns, 2], and these gradients in rows. A missing last row of a
// pair is 0, and so is a column behind an odd number of columns. A stride as long as that of the
// inputs holds a row, twice as long a pair of rows.
struct SoftmaxPairs {
  Bf16* p_pairs;
  Bf16* ds_pairs;
  Bf16* ds;
  int64_t stride;
};

// What the softmax of a row of logits is relative to: it is exp(logit - shift) / denominator.
struct SoftmaxSum {
  float shift = 0;
  float denominator = 0;
};

// The kernels compiled for one instruction set.
template <typename T>
struct Kernels {
  // Residual addition and RMSNorm (Zhang and Sennrich 2019, arXiv 1910.07467):
  //     sum = x + delta,  rstd = 1 / sqrt(mean(sum^2) + eps),  out = sum * rstd * weight
  // delta may be null (sum = x). sum may be x itself.
  void (*add_rmsnorm)(int64_t rows, int64_t width, const float* x_RW, const T* delta_RW,
                      const float* weight_W, float eps, float* sum_RW, float* rstd_R, T* out_RW);

  // Backward pass of out = x * rstd * weight, given the gradient dout:
  //     dx += rstd * (weight * dout - x * rstd^2 * mean(dout * weight * x))
  //     dweight += dout * x * rstd
  // Also writes `out` again, for the weight gradients that need it, and dx rounded to T in dx_copy
  // (null: not needed).
  void (*rmsnorm_backward)(int64_t rows, int64_t width, const float* x_RW, const float* rstd_R,
                           const float* weight_W, const T* dout_RW, float* dx_RW, T* dx_copy_RW,
                           float* dweight_W, T* out_RW);

  // RMSNorm of groups of columns: each of the `groups` parts of a row of x, `width` wide and one
  // after the other, is normed by itself with the same weight. Rows of x and of raw are the strides
  // apart; raw receives x as it was, x becomes the norm, and rstd holds 1 / rms, `groups` a row,
  // its rows rstd_stride apart.
  void (*norm_groups)(const NormGroups& shape, const float* weight_W, float eps, T* x, T* raw,
                      float* rstd);

  // Backward pass of norm_groups: dx = rstd * (weight * dout - raw * rstd^2 * mean(dout * weight *
  // raw)) for each group, with dout and dx laid out as x; dx may be dout. dweight_W is added to.
  void (*norm_groups_backward)(const NormGroups& shape, const T* raw, const float* rstd,
                               const float* weight_W, const T* dout, T* dx, float* dweight_W);

  // x += bias in every row, rows `stride` apart.
  void (*add_bias)(int64_t rows, int64_t width, const float* bias_W, T* x, int64_t stride);
  // sum += the rows of x, one after the other.
  void (*add_rows)(int64_t rows, int64_t width, const T* x, int64_t stride, float* sum_W);

  // sum = x + delta (null: x), and the same rounded to T. sum may be x.
  void (*add_delta)(int64_t count, const float* x, const T* delta, float* sum, T* rounded);

  // SwiGLU (Shazeer 2020, arXiv 2002.05202): out = silu(gate) * up. A row of gate_up holds `width`
  // gates, then `width` ups.
  void (*swiglu)(int64_t rows, int64_t width, const T* gate_up_R2F, T* out_RF);

  // Replaces gate_up by its gradient, given the gradient dout of `out`, and writes `out` again,
  // which may be dout.
  void (*swiglu_backward)(int64_t rows, int64_t width, T* gate_up_R2F, const T* dout_RF, T* out_RF);

  // Residual addition and LayerNorm (Ba et al. 2016, arXiv 1607.06450), of which the result is the
  // residual stream:
  //     sum = x + delta,  normed = (sum - mean(sum)) * rstd,  rstd = 1 / sqrt(variance(sum) + eps)
  //     y = normed * weight + bias,  out = y, rounded to T
  // delta may be null (sum = x). y may be x.
  void (*layer_norm)(int64_t rows, int64_t width, const float* x_RW, const T* delta_RW,
                     const float* weight_W, const float* bias_W, float eps, float* normed_RW,
                     float* rstd_R, float* y_RW, T* out_RW);
  // y and out again.
  void (*layer_norm_again)(int64_t rows, int64_t width, const float* normed_RW,
                           const float* weight_W, const float* bias_W, float* y_RW, T* out_RW);
  // Backward pass: with dy = dx + dout, dx becomes the gradient of sum,
  //     rstd * (weight * dy - mean(weight * dy) - normed * mean(weight * dy * normed)),
  // also rounded to T in dx_copy (null: not needed), and
  //     dweight += dy * normed,  dbias += dy.
  // Also writes `out` again.
  void (*layer_norm_backward)(int64_t rows, int64_t width, const float* normed_RW,
                              const float* rstd_R, const float* weight_W, const float* bias_W,
                              const T* dout_RW, float* dx_RW, T* dx_copy_RW, float* dweight_W,
                              float* dbias_W, T* out_RW);

  // GELU (Hendrycks and Gimpel 2016, arXiv 1606.08415), not its approximation by tanh: out = x *
  // the cumulative probability of x under the normal distribution.
  void (*gelu)(int64_t count, const T* x, T* out);
  // Replaces x by its gradient, given the gradient dout of `out`, and writes `out` again, which may
  // be dout.
  void (*gelu_backward)(int64_t count, T* x, const T* dout, T* out);

  // Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in Hugging Face's half-split
  // layout: the pair (x[i], x[i + width/2]) of the row at position p is rotated by p *
  // theta^(-2i/width). cosine and sine are tables [R, width/2] that begin at the first row's
  // position. Rows are the strides apart; the result is multiplied by `scale`. The backward pass is
  // the inverse rotation.
  void (*rotate_load)(Rotation rotation, int64_t rows, int64_t width, const float* cosine,
                      const float* sine, float scale, const T* from, int64_t from_stride, float* to,
                      int64_t to_stride);
  void (*rotate_store)(Rotation rotation, int64_t rows, int64_t width, const float* cosine,
                       const float* sine, float scale, const float* from, int64_t from_stride,
                       T* to, int64_t to_stride);

  // Copies rows between strides and types: to = scale[row] * from (null: 1).
  void (*load_rows)(int64_t rows, int64_t width, const float* scale_R, const T* from,
                    int64_t from_stride, float* to, int64_t to_stride);
  void (*store_rows)(int64_t rows, int64_t width, const float* scale_R, const float* from,
                     int64_t from_stride, T* to, int64_t to_stride);

  // to[column, row] = from[row, column].
  void (*transpose)(int64_t rows, int64_t columns, const float* from, int64_t from_stride,
                    float* to, int64_t to_stride);

  // One tile of a causal softmax of attention scores, for rows whose columns come tile by tile
  // (Milakov and Gimelshein 2018, arXiv 1805.02867). Row r may see the first `visible + r` columns
  // (none if that is not positive), and of those only the last `reach`; in p they are exp(score -
  // max), and the other columns are 0, in bf16 also one behind an odd number of columns. p may be
  // `scores`; rows of both are `stride` apart. max and sum are the row's greatest score and sum of
  // exp(score - max) so far, initially -infinity and 0; every row sees something in its first tile.
  // rescale is the factor by which earlier tiles' results must be multiplied.
  void (*causal_softmax_tile)(int64_t rows, int64_t columns, int64_t visible, int64_t reach,
                              const float* scores, int64_t stride, T* p, float* max_R, float* sum_R,
                              float* rescale_R);

  // Backward pass of one tile of the softmax: scores become the probabilities p = exp(score -
  // log_sum_exp), where log_sum_exp is the final max plus the logarithm of the final sum, and
  // dprobability becomes the gradient of the scores, p * (dprobability - correction); both are 0
  // beyond what a row may see. correction is the row's sum of p * dprobability.
  void (*causal_softmax_backward)(int64_t rows, int64_t columns, int64_t visible, int64_t reach,
                                  const float* log_sum_exp_R, const float* correction_R,
                                  float* scores, float* dprobability, int64_t stride);

  // The same with bf16 results beside the inputs. Rows of scores and dprobability must have space
  // for 16 values behind the last column.
  void (*causal_softmax_backward_pairs)(int64_t rows, int64_t columns, int64_t visible,
                                        int64_t reach, const float* log_sum_exp_R,
                                        const float* correction_R, const float* scores,
                                        const float* dprobability, int64_t stride,
                                        const SoftmaxPairs& to);

  // Row sums of a * b.
  void (*row_dots)(int64_t rows, int64_t width, const T* a, int64_t a_stride, const T* b,
                   int64_t b_stride, float* out_R);

  // Cross entropy of one row of logits with the token `target`, in nats, in one pass over memory.
  // If gradient is not null, denominator * (softmax(logits) - one_hot(target)) is written there;
  // dividing by the softmax's denominator is left to the caller. The logits are overwritten;
  // gradient may begin where they do.
  float (*cross_entropy)(int64_t vocabulary, float* logits_V, int64_t target, T* gradient_V,
                         SoftmaxSum* sum);
  // The gradient again, given its row's sum, of `count` of the row's logits. The target's index is
  // relative to the first of them, and may lie outside. gradient may begin where the logits do.
  void (*cross_entropy_again)(int64_t count, const float* logits, int64_t target,
                              const SoftmaxSum& sum, T* gradient);

  // to += from.
  void (*add)(int64_t count, const float* from, float* to);
};

// The kernels for this CPU; T is float or Bf16.
template <typename T>
const Kernels<T>& kernels();

// The same, for the instruction set that Highway has currently chosen: lets tests cover each.
template <typename T>
Kernels<T> dispatch_kernels();

}  // namespace thinwire::tensor
