// The last product and its cross entropy on the CPU.
#include "thinwire/base/half.h"
#include "thinwire/model/cpu_ops.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {

template <typename T>
const int32_t* CpuOps<T>::targets() const {
  return selected_ ? selected_->classes.data() : batch_->targets();
}

template <typename T>
const float* CpuOps<T>::target_weights() const {
  return selected_ ? selected_->weights.data() : batch_->weights();
}

template <typename T>
const T* CpuOps<T>::head_weights(const Head& head) const {
  // Slab by slab, as they are updated.
  over_slabs(head.weight, head.outputs, width(head.x_NC),
             [&](const tensor::GradientRange& slab) { touch(slab); });
  return weights().at(head.weight);
}

template <typename T>
const float* CpuOps<T>::head_bias(const Head& head) {
  return head.bias == Head::kNoBias ? nullptr : vector(head.bias, head.outputs);
}

template <typename T>
void CpuOps<T>::cross_entropy(const Head& head) {
  const TimedScope timed(times_.head);
  loss_ = head_->loss(tokens_, operands(head.x_NC), head_weights(head), targets(), target_weights(),
                      nullptr, head_bias(head));
}

template <typename T>
void CpuOps<T>::document_losses(const Head& head, std::span<double> losses) {
  const TimedScope timed(times_.head);
  losses_N_.resize(static_cast<size_t>(max_tokens_));
  loss_ = head_->loss(tokens_, operands(head.x_NC), head_weights(head), targets(), target_weights(),
                      losses_N_.data(), head_bias(head));
  sum_by_document(*batch_, losses_N_, losses);
}

template <typename T>
void CpuOps<T>::cross_entropy_gradients(const Head& head, float scale) {
  const int64_t c = width(head.x_NC);
  const tensor::GradientRange all = {head.weight, head.outputs * c};
  const bool trained = is_trained(head.weight);
  const bool in_slabs = trained && slab_rows(head.outputs, c, slabs_) < head.outputs;
  {
    const TimedScope timed(times_.head);
    tensor::OpenGradient to;
    if (trained && !in_slabs) to = sink_->open(all);
    loss_ = head_->loss_and_gradients(tokens_, operands(head.x_NC), head_weights(head), targets(),
                                      target_weights(), scale, operands(head.dx_NC), to.keep,
                                      to.values, head_bias(head));
  }
  if (in_slabs) {
    over_slabs(head.weight, head.outputs, c,
               [&](const tensor::GradientRange& slab) { head_slab_backward(head, slab); });
  } else if (trained && !head.embeds) {
    sink_->complete(all);
  }
}

template <typename T>
void CpuOps<T>::head_slab_backward(const Head& head, const tensor::GradientRange& slab) {
  {
    const TimedScope timed(times_.head);
    const int64_t c = width(head.x_NC);
    touch(slab);
    const tensor::OpenGradient to = sink_->open(slab);
    head_->weight_gradient(tokens_, operands(head.x_NC), weights().at(head.weight), targets(),
                           (slab.offset - head.weight) / c, slab.count / c, to.keep, to.values);
  }
  sink_->complete(slab);
}

template <typename T>
void CpuOps<T>::head_bias_backward(const Head& head) {
  if (head.bias == Head::kNoBias || !is_trained(head.bias)) return;
  const tensor::GradientRange range = {head.bias, head.outputs};
  head_->add_bias_gradient(open_accumulator(range));
  sink_->complete(range);
}

template <typename T>
void CpuOps<T>::head_logits(const Head& head, std::span<float> out) {
  const int64_t c = width(head.x_NC);
  tensor::gemm(threads_, tensor::Transpose::kNo, tensor::Transpose::kYes, tokens_, head.outputs, c,
               static_cast<const T*>(operands(head.x_NC)), c, head_weights(head), c, 0, out.data(),
               head.outputs);
  if (const float* const bias = head_bias(head)) {
    tensor::kernels<float>().add_bias(tokens_, head.outputs, bias, out.data(), head.outputs);
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
#define THINWIRE_INSTANTIATE(T)                                                           \
  template const int32_t* CpuOps<T>::targets() const;                                     \
  template const float* CpuOps<T>::target_weights() const;                                \
  template const T* CpuOps<T>::head_weights(const Head&) const;                           \
  template const float* CpuOps<T>::head_bias(const Head&);                                \
  template void CpuOps<T>::cross_entropy(const Head&);                                    \
  template void CpuOps<T>::document_losses(const Head&, std::span<double>);               \
  template void CpuOps<T>::cross_entropy_gradients(const Head&, float);                   \
  template void CpuOps<T>::head_slab_backward(const Head&, const tensor::GradientRange&); \
  template void CpuOps<T>::head_bias_backward(const Head&);                               \
  template void CpuOps<T>::head_logits(const Head&, std::span<float>)
// NOLINTEND(bugprone-macro-parentheses)
THINWIRE_INSTANTIATE(float);
THINWIRE_INSTANTIATE(Bf16);
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::model
