// The operations of CpuOps that encoders need: tables of positions, LayerNorm, GELU, and the rows
// from which classes are predicted.
#include <algorithm>
#include <cmath>

#include "thinwire/base/half.h"
#include "thinwire/model/cpu_ops.h"

namespace thinwire::model {
namespace {

float widened(float value) { return value; }
float widened(Bf16 value) { return to_float(value); }
float rounded_to(float value, float) { return value; }
Bf16 rounded_to(float value, Bf16) { return to_bf16(value); }

}  // namespace

template <typename T>
void CpuOps<T>::add_positions(const PositionTables& tables, Slot x) {
  const int64_t c = width(x);
  const TimedScope timed(times_.between);
  const auto [positions, first] = storage_of(tables.positions);
  const float* const type = vector(tables.types, c);
  bias_.resize(static_cast<size_t>(c));
  for (const Document& document : batch_->documents()) {
    for (int64_t i = 0; i < document.count; ++i) {
      positions.read(first + (tables.first + i) * c, bias_);
      float* const to = floats(x) + (document.first + i) * c;
      tensor::kernels<T>().add(c, bias_.data(), to);
      tensor::kernels<T>().add(c, type, to);
    }
  }
}

template <typename T>
void CpuOps<T>::positions_backward(Slot dx, const PositionTables& tables) {
  const int64_t c = width(dx);
  // Each thread adds up a range of columns over all tokens, in the order of tokens.
  const auto sum_rows = [&](const tensor::GradientRange& range, int64_t first, bool by_position) {
    if (!is_trained(range.offset)) return;
    {
      const TimedScope timed(times_.between);
      float* const to = open_accumulator(range);
      threads_.for_ranges(c, 16, [&](int64_t begin, int64_t end, int) {
        for (const Document& document : batch_->documents()) {
          for (int64_t i = 0; i < document.count; ++i) {
            const int64_t row = by_position ? first + i : 0;
            tensor::kernels<T>().add(end - begin, floats(dx) + (document.first + i) * c + begin,
                                     to + row * c + begin);
          }
        }
      });
    }
    sink_->complete(range);
  };
  sum_rows({tables.types, tables.type_rows * c}, 0, false);
  sum_rows({tables.positions, tables.position_rows * c}, tables.first, true);
}

template <typename T>
void CpuOps<T>::layer_norm(const LayerNorm& norm, Slot x, Slot branch, const LayerNormSlots& saved,
                           Slot y, Slot out) {
  const int64_t c = width(out);
  const T* const delta = branch == kNoSlot ? nullptr : operands(branch);
  const float* const weight = vector(norm.weight, c);
  const float* const bias = vector(norm.bias, c, bias_);
  over_tokens([&](int64_t first, int64_t count) {
    const int64_t at = first * c;
    tensor::kernels<T>().layer_norm(
        count, c, floats(x) + at, delta == nullptr ? nullptr : delta + at, weight, bias, norm_eps_,
        floats(saved.normed_NC) + at, floats(saved.rstd_N) + first, floats(y) + at,
        operands(out) + at);
  });
}

template <typename T>
void CpuOps<T>::layer_norm_again(const LayerNorm& norm, const LayerNormSlots& saved, Slot y,
                                 Slot out) {
  const int64_t c = width(out);
  const float* const weight = vector(norm.weight, c);
  const float* const bias = vector(norm.bias, c, bias_);
  over_tokens([&](int64_t first, int64_t count) {
    const int64_t at = first * c;
    tensor::kernels<T>().layer_norm_again(count, c, floats(saved.normed_NC) + at, weight, bias,
                                          floats(y) + at, operands(out) + at);
  });
}

template <typename T>
void CpuOps<T>::layer_norm_backward(const LayerNorm& norm, const LayerNormSlots& saved, Slot dout,
                                    Slot dx, Slot dx_rounded, Slot out) {
  const int64_t c = width(dx);
  const float* const weight = vector(norm.weight, c);
  const float* const bias = vector(norm.bias, c, bias_);
  {
    const TimedScope timed(times_.between);
    std::fill_n(dnorm_.data(), threads_.size() * 2 * c, 0.0f);
    threads_.for_ranges(tokens_, 1, [&](int64_t begin, int64_t end, int thread) {
      const int64_t at = begin * c;
      float* const dweight = dnorm_.data() + thread * 2 * c;
      tensor::kernels<T>().layer_norm_backward(
          end - begin, c, floats(saved.normed_NC) + at, floats(saved.rstd_N) + begin, weight, bias,
          operands(dout) + at, floats(dx) + at,
          dx_rounded == dx ? nullptr : operands(dx_rounded) + at, dweight, dweight + c,
          operands(out) + at);
    });
  }
  complete_sum({norm.weight, c}, 0);
  complete_sum({norm.bias, c}, c);
}

template <typename T>
void CpuOps<T>::complete_sum(const tensor::GradientRange& range, int64_t column) {
  if (!is_trained(range.offset)) return;
  float* const to = open_accumulator(range);
  for (int thread = 0; thread < threads_.size(); ++thread) {
    tensor::kernels<T>().add(range.count, dnorm_.data() + thread * 2 * range.count + column, to);
  }
  sink_->complete(range);
}

template <typename T>
void CpuOps<T>::gelu(Slot x, Slot out) {
  const int64_t f = width(out);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().gelu(count * f, operands(x) + first * f, operands(out) + first * f);
  });
}

template <typename T>
void CpuOps<T>::gelu_backward(Slot x, Slot dout, Slot out) {
  const int64_t f = width(out);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().gelu_backward(count * f, operands(x) + first * f,
                                       operands(dout) + first * f, operands(out) + first * f);
  });
}

template <typename T>
void CpuOps<T>::tanh(Slot x) {
  T* const values = operands(x);
  for (int64_t i = 0; i < tokens_ * width(x); ++i)
    values[i] = rounded_to(std::tanh(widened(values[i])), T());
}

template <typename T>
void CpuOps<T>::tanh_backward(Slot y, Slot dout) {
  T* const gradient = operands(dout);
  const T* const of = operands(y);
  for (int64_t i = 0; i < tokens_ * width(y); ++i) {
    const float value = widened(of[i]);
    gradient[i] = rounded_to(widened(gradient[i]) * (1 - value * value), T());
  }
}

template <typename T>
void CpuOps<T>::select_first(Slot x, Slot out) {
  const int64_t c = width(x);
  selected_ = class_targets(*batch_, outputs_);
  tokens_ = static_cast<int64_t>(selected_->first.size());
  for (int64_t i = 0; i < tokens_; ++i) {
    tensor::kernels<T>().store_rows(1, c, nullptr, floats(x) + selected_->first[i] * c, c,
                                    operands(out) + i * c, c);
  }
}

template <typename T>
void CpuOps<T>::select_first_backward(Slot dout, Slot dx) {
  const int64_t c = width(dx);
  tokens_ = batch_->tokens();
  std::fill_n(operands(dx), tokens_ * c, T());
  for (size_t i = 0; i < selected_->first.size(); ++i) {
    std::copy_n(operands(dout) + static_cast<int64_t>(i) * c, c,
                operands(dx) + selected_->first[i] * c);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(T)                                                                   \
  template void CpuOps<T>::add_positions(const PositionTables&, Slot);                            \
  template void CpuOps<T>::positions_backward(Slot, const PositionTables&);                       \
  template void CpuOps<T>::layer_norm(const LayerNorm&, Slot, Slot, const LayerNormSlots&, Slot,  \
                                      Slot);                                                      \
  template void CpuOps<T>::layer_norm_again(const LayerNorm&, const LayerNormSlots&, Slot, Slot); \
  template void CpuOps<T>::layer_norm_backward(const LayerNorm&, const LayerNormSlots&, Slot,     \
                                               Slot, Slot, Slot);                                 \
  template void CpuOps<T>::gelu(Slot, Slot);                                                      \
  template void CpuOps<T>::gelu_backward(Slot, Slot, Slot);                                       \
  template void CpuOps<T>::tanh(Slot);                                                            \
  template void CpuOps<T>::tanh_backward(Slot, Slot);                                             \
  template void CpuOps<T>::select_first(Slot, Slot);                                              \
  template void CpuOps<T>::select_first_backward(Slot, Slot)
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::model
