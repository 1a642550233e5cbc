// The operations of CpuOps around a branch of a block: biases, norms of columns, the addition to
// the residual stream, and keeping the latter as an operand.
#include "thinwire/base/half.h"
#include "thinwire/model/cpu_ops.h"

namespace thinwire::model {

template <typename T>
void CpuOps<T>::keep(Slot x, Slot kept) {
  const int64_t c = width(x);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().store_rows(count, c, nullptr, floats(x) + first * c, c,
                                    operands(kept) + first * c, c);
  });
}

template <typename T>
void CpuOps<T>::restore(Slot kept, Slot x) {
  const int64_t c = width(x);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().load_rows(count, c, nullptr, operands(kept) + first * c, c,
                                   floats(x) + first * c, c);
  });
}

template <typename T>
void CpuOps<T>::add_branch(Slot x, Slot branch, Slot sum, Slot out) {
  const int64_t c = width(out);
  over_tokens([&](int64_t first, int64_t count) {
    const int64_t at = first * c;
    tensor::kernels<T>().add_delta(count * c, floats(x) + at,
                                   branch == kNoSlot ? nullptr : operands(branch) + at,
                                   floats(sum) + at, operands(out) + at);
  });
}

template <typename T>
void CpuOps<T>::add_branch_backward(Slot sum, Slot dout, Slot dx, Slot dx_rounded, Slot out) {
  const int64_t c = width(dx);
  over_tokens([&](int64_t first, int64_t count) {
    const int64_t at = first * c;
    tensor::kernels<T>().add_delta(count * c, floats(dx) + at, operands(dout) + at, floats(dx) + at,
                                   operands(dx_rounded) + at);
    tensor::kernels<T>().add_delta(count * c, floats(sum) + at, nullptr, floats(sum) + at,
                                   operands(out) + at);
  });
}

template <typename T>
void CpuOps<T>::add_bias(const Bias& bias, Slot y) {
  const int64_t w = width(y);
  for (const Bias::Part& part : bias.parts()) {
    const float* const values = vector(part.range.offset, part.range.count);
    over_tokens([&](int64_t first, int64_t count) {
      tensor::kernels<T>().add_bias(count, part.range.count, values,
                                    operands(y) + first * w + part.column, w);
    });
  }
}

template <typename T>
void CpuOps<T>::bias_backward(const Bias& bias, Slot dy) {
  const int64_t w = width(dy);
  for (const Bias::Part& part : bias.parts()) {
    if (!is_trained(part.range.offset)) continue;
    {
      const TimedScope timed(times_.between);
      float* const to = open_accumulator(part.range);
      // Each thread adds up a range of columns over all tokens, in the order of tokens.
      threads_.for_ranges(part.range.count, 16, [&](int64_t begin, int64_t end, int) {
        tensor::kernels<T>().add_rows(tokens_, end - begin, operands(dy) + part.column + begin, w,
                                      to + begin);
      });
    }
    sink_->complete(part.range);
  }
}

template <typename T>
tensor::NormGroups CpuOps<T>::groups(const NormColumns& norm, Slot x, const PreNormSlots& saved,
                                     int64_t count) const {
  return {.rows = count,
          .groups = norm.groups,
          .width = norm.width,
          .stride = width(x),
          .raw_stride = width(saved.x_NW),
          .rstd_stride = width(saved.rstd_NG)};
}

template <typename T>
void CpuOps<T>::norm_columns(const NormColumns& norm, Slot x, const PreNormSlots& saved) {
  const float* const scales = vector(norm.weight, norm.width);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().norm_groups(
        groups(norm, x, saved, count), scales, norm_eps_,
        operands(x) + first * width(x) + norm.column,
        operands(saved.x_NW) + first * width(saved.x_NW) + norm.column,
        floats(saved.rstd_NG) + first * width(saved.rstd_NG) + norm.statistic);
  });
}

template <typename T>
void CpuOps<T>::norm_columns_backward(const NormColumns& norm, const PreNormSlots& saved, Slot dout,
                                      Slot dx) {
  const int64_t w = width(dx), raw = width(saved.x_NW), statistics = width(saved.rstd_NG);
  const float* const scales = vector(norm.weight, norm.width);
  sum_norm_gradient({norm.weight, norm.width}, [&](int64_t first, int64_t count, float* dweight) {
    tensor::kernels<T>().norm_groups_backward(
        groups(norm, dx, saved, count), operands(saved.x_NW) + first * raw + norm.column,
        floats(saved.rstd_NG) + first * statistics + norm.statistic, scales,
        operands(dout) + first * w + norm.column, operands(dx) + first * w + norm.column, dweight);
  });
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(T)                                                                 \
  template void CpuOps<T>::keep(Slot, Slot);                                                    \
  template void CpuOps<T>::restore(Slot, Slot);                                                 \
  template void CpuOps<T>::add_branch(Slot, Slot, Slot, Slot);                                  \
  template void CpuOps<T>::add_branch_backward(Slot, Slot, Slot, Slot, Slot);                   \
  template void CpuOps<T>::add_bias(const Bias&, Slot);                                         \
  template void CpuOps<T>::bias_backward(const Bias&, Slot);                                    \
  template void CpuOps<T>::norm_columns(const NormColumns&, Slot, const PreNormSlots&);         \
  template void CpuOps<T>::norm_columns_backward(const NormColumns&, const PreNormSlots&, Slot, \
                                                 Slot)
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::model
