#include "thinwire/model/cpu_ops.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "thinwire/base/clock.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::model {
namespace {

template <typename T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

}  // namespace

// The bf16 copy of the tensors that products read. It has a place for all of them, but the system
// gives no memory to places that are never written.
template <typename T>
class CpuOps<T>::Copy {
 public:
  // kept: the same arena if the copy is to be registered with it (Arena::keep_rounded), else null.
  Copy(const tensor::Arena& params, tensor::Arena* kept, const method::ModelSpec& model,
       ThreadPool& threads)
      : params_(params),
        kept_(kept),
        threads_(threads),
        copied_(method::multiplied_tensors(model, params.layout().specs())),
        values_(params.layout().total()) {
    if constexpr (!kIsFloat<T>) {
      if (kept_ != nullptr) kept_->keep_rounded(values_.data(), copied_);
    }
    refresh();
  }
  ~Copy() {
    if constexpr (!kIsFloat<T>) {
      if (kept_ != nullptr && kept_->rounded() == values_.data()) kept_->keep_rounded(nullptr, {});
    }
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void refresh() {
    if constexpr (!kIsFloat<T>) {
      if (kept_ != nullptr && kept_->is_current(values_.data())) return;
      const tensor::Layout& layout = params_.layout();
      for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
        if (copied_[tensor]) copy(layout.offset(tensor), layout.specs()[tensor].count());
      }
      if (kept_ != nullptr && kept_->rounded() == values_.data()) kept_->set_rounded_current();
    }
  }

  const T* data() const { return values_.data(); }
  size_t bytes() const {
    const tensor::Layout& layout = params_.layout();
    size_t sum = 0;
    for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
      if (copied_[tensor]) sum += sizeof(T) * static_cast<size_t>(layout.specs()[tensor].count());
    }
    return sum;
  }

 private:
  void copy(int64_t first, int64_t size) {
    const float* const from = params_.all().data() + first;
    T* const to = values_.data() + first;
    threads_.for_ranges(size, 64, [&](int64_t begin, int64_t end, int) {
      const int64_t count = end - begin;
      tensor::kernels<T>().store_rows(1, count, nullptr, from + begin, count, to + begin, count);
    });
  }

  const tensor::Arena& params_;
  tensor::Arena* const kept_;
  ThreadPool& threads_;
  const std::vector<bool> copied_;  // by tensor
  tensor::AlignedBuffer<T> values_;
};

template <typename T>
CpuOps<T>::CpuOps(const tensor::Arena& params, const tensor::Arena* frozen, ThreadPool& threads,
                  ThreadPool* row_threads, int64_t max_tokens, int64_t positions)
    : threads_(threads),
      max_tokens_(max_tokens),
      positions_(positions),
      params_(params),
      frozen_(frozen),
      row_threads_(row_threads) {}

template <typename T>
CpuOps<T>::CpuOps(const ModelParts& parts)
    : CpuOps(parts.params, parts.frozen, parts.threads, &parts.threads,
             parts.max_rows * parts.sequence, parts.sequence) {
  if constexpr (!kIsFloat<T>) {
    if (params_.format() == WeightFormat::kF32) {
      copy_ = std::make_unique<Copy>(parts.params, &parts.params, parts.model, threads_);
    }
    if (frozen_ != nullptr && frozen_->format() == WeightFormat::kF32)
      frozen_copy_ = std::make_unique<Copy>(*frozen_, nullptr, parts.model, threads_);
  }
  if (method::is_adapted(parts.adapter)) {
    adapters_ = std::make_unique<AdapterProducts<T>>(
        parts.adapter.rank, method::factor_scale(parts.adapter), max_tokens_, threads_);
  }
  outputs_ = method::find_architecture(parts.model.architecture).outputs(parts.model);
  head_ = std::make_unique<tensor::LinearCrossEntropy<T>>(parts.model.hidden, outputs_, max_tokens_,
                                                          threads_);
  vocabulary_ = parts.model.vocab;
  slabs_ = parts.model.vocab_slabs;
}

template <typename T>
CpuOps<T>::~CpuOps() = default;

template <typename T>
void CpuOps<T>::refresh() {
  if (copy_) copy_->refresh();
}

template <typename T>
void CpuOps<T>::refresh_frozen() {
  if (frozen_copy_) frozen_copy_->refresh();
}

template <typename T>
const float* CpuOps<T>::parameter(int64_t offset) const {
  const auto [arena, first] = storage_of(offset);
  return arena.all().data() + first;
}

template <typename T>
Weights<T> CpuOps<T>::weights() const {
  if constexpr (kIsFloat<T>) {
    return {params_.all().data(), frozen_ == nullptr ? nullptr : frozen_->all().data()};
  } else {
    Weights<T> all = {.trained = copy_ ? copy_->data() : params_.bf16()};
    if (frozen_copy_) {
      all.frozen = frozen_copy_->data();
    } else if (frozen_ != nullptr && is_encoded(frozen_->format())) {
      all.packed = &frozen_->packed();
    } else if (frozen_ != nullptr) {
      all.frozen = frozen_->bf16();
    }
    return all;
  }
}

template <typename T>
void CpuOps<T>::touch(const Linear& linear) const {
  for (const Linear::Part& matrix : linear.matrices()) touch(linear.range(matrix));
}

template <typename T>
void CpuOps<T>::touch(const tensor::GradientRange& range) const {
  if (is_trained(range.offset) ? copy_ != nullptr : frozen_copy_ != nullptr) return;
  const auto [arena, first] = storage_of(range.offset);
  arena.touch(first, range.count, false);
}

template <typename T>
std::pair<const tensor::Arena&, int64_t> CpuOps<T>::storage_of(int64_t offset) const {
  if (is_trained(offset)) return {params_, offset};
  return {*frozen_, offset - tensor::kFrozenOffset};
}

template <typename T>
const float* CpuOps<T>::vector(int64_t offset, int64_t count, std::vector<float>& storage) {
  const auto [arena, first] = storage_of(offset);
  if (arena.format() == WeightFormat::kF32) return arena.all().data() + first;
  storage.resize(static_cast<size_t>(count));
  arena.read(first, storage);
  return storage.data();
}

template <typename T>
Slot CpuOps<T>::add_slot(int64_t width, size_t value_bytes) {
  const auto bytes = max_tokens_ * width * static_cast<int64_t>(value_bytes);
  slots_.push_back({width, tensor::AlignedBuffer<uint8_t>(bytes)});
  return static_cast<Slot>(slots_.size()) - 1;
}

template <typename T>
Slot CpuOps<T>::stream(int64_t width) {
  return add_slot(width, sizeof(float));
}

template <typename T>
Slot CpuOps<T>::operand(int64_t width) {
  return add_slot(width, sizeof(T));
}

template <typename T>
Slot CpuOps<T>::rounded(Slot stream) {
  return kIsFloat<T> ? stream : operand(width(stream));
}

template <typename T>
void CpuOps<T>::plan_norms(double eps, int64_t widest) {
  norm_eps_ = static_cast<float>(eps);
  const bool trains = head_ != nullptr;
  if (trains) dnorm_ = tensor::AlignedBuffer<float>(threads_.size() * widest);
}

template <typename T>
void CpuOps<T>::plan_attention(int64_t, const tensor::AttentionShape& shape, const RopeSpec& rope) {
  rope_spec_ = rope;
  head_size_ = shape.head_size;
  rope_.emplace(positions_, head_size_, rope_spec_);
  scratch_.clear();
  const tensor::Bf16Tiles* const products = kIsFloat<T> ? nullptr : tensor::bf16_tiles();
  for (int i = 0; i < threads_.size(); ++i) {
    scratch_.emplace_back(positions_, shape.head_size, products);
  }
}

template <typename T>
void CpuOps<T>::begin_tokens(const int32_t* inputs, int64_t count) {
  inputs_ = inputs;
  tokens_ = count;
}

template <typename T>
void CpuOps<T>::fit_rope(int64_t length) {
  if (!rope_->is_for(length)) rope_.emplace(positions_, head_size_, rope_spec_, length);
}

template <typename T>
void CpuOps<T>::begin_batch(const Batch& batch, bool) {
  batch_ = &batch;
  selected_.reset();
  fit_rope(batch.sequence());
  begin_tokens(batch.inputs(), batch.tokens());
}

template <typename T>
void CpuOps<T>::begin_gradients(tensor::GradientSink& sink, tensor::Pass pass) {
  sink_ = &sink;
  sink.begin(pass, nullptr);
}

template <typename T>
float* CpuOps<T>::open_accumulator(const tensor::GradientRange& range) {
  const tensor::OpenGradient to = sink_->open(range);
  if (to.keep == 0) {
    threads_.for_ranges(range.count, 1024, [&](int64_t begin, int64_t end, int) {
      std::fill(to.values + begin, to.values + end, 0.0f);
    });
  }
  return to.values;
}

template <typename T>
template <typename Body>
void CpuOps<T>::over_heads(const tensor::AttentionShape& shape, const Body& body) {
  const TimedScope timed(times_.attention);
  const int64_t heads = shape.kv_heads;
  const std::vector<Document>& documents = batch_->documents();
  const auto count = static_cast<int64_t>(documents.size());
  threads_.for_ranges(count * heads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      body(documents[static_cast<size_t>(i / heads)], i % heads, scratch_[thread]);
    }
  });
}

template <typename T>
void CpuOps<T>::embed(int64_t table, Slot x) {
  const int64_t c = width(x);
  const auto [arena, first_value] = storage_of(table);
  const int64_t rows = arena.layout().specs()[arena.layout().at(first_value)].count() / c;
  over_slabs(first_value, rows, c, [&arena = arena](const tensor::GradientRange& slab) {
    arena.touch(slab.offset, slab.count, false);
  });
  float* const to = floats(x);
  over_tokens([&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) {
      arena.read(first_value + inputs_[i] * c, {to + i * c, static_cast<size_t>(c)});
    }
  });
}

template <typename T>
void CpuOps<T>::add_norm(Slot x, Slot branch, int64_t weight, const NormSlots& saved, Slot out) {
  const int64_t c = width(out);
  const float* const from = floats(x);
  const T* const delta = branch == kNoSlot ? nullptr : operands(branch);
  const float* const scales = vector(weight, c);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().add_rmsnorm(count, c, from + first * c,
                                     delta == nullptr ? nullptr : delta + first * c, scales,
                                     norm_eps_, floats(saved.x_NC) + first * c,
                                     floats(saved.rstd_N) + first, operands(out) + first * c);
  });
}

template <typename T>
void CpuOps<T>::linear(const Linear& linear, Slot x, Slot y) {
  const T* const from = operands(x);
  touch(linear);
  linear.forward(threads_, tokens_, weights(), from, operands(y));
  if (adapters_) adapters_->forward(linear, tokens_, weights(), from, operands(y));
}

template <typename T>
void CpuOps<T>::attention(int64_t, const tensor::AttentionShape& shape,
                          const AttentionSlots& slots) {
  over_heads(shape, [&](const Document& part, int64_t head, tensor::AttentionScratch& scratch) {
    tensor::attention_forward<T>(shape, *rope_, part.count, head,
                                 operands(slots.qkv_NW) + part.first * shape.qkv_width(),
                                 operands(slots.out_NC) + part.first * shape.width(),
                                 floats(slots.log_sum_exp_NH) + part.first * shape.heads, scratch);
  });
}

template <typename T>
void CpuOps<T>::swiglu(Slot gate_up, Slot out) {
  const int64_t f = width(out);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().swiglu(count, f, operands(gate_up) + first * 2 * f,
                                operands(out) + first * f);
  });
}

template <typename T>
void CpuOps<T>::clear(Slot dx) {
  std::fill_n(floats(dx), tokens_ * width(dx), 0.0f);
}

template <typename T>
void CpuOps<T>::norm_backward(const NormSlots& saved, int64_t weight, Slot dout, Slot dx,
                              Slot dx_rounded, Slot out) {
  const int64_t c = width(dx);
  const float* const scales = vector(weight, c);
  sum_norm_gradient({weight, c}, [&](int64_t first, int64_t count, float* dweight) {
    tensor::kernels<T>().rmsnorm_backward(count, c, floats(saved.x_NC) + first * c,
                                          floats(saved.rstd_N) + first, scales,
                                          operands(dout) + first * c, floats(dx) + first * c,
                                          kIsFloat<T> ? nullptr : operands(dx_rounded) + first * c,
                                          dweight, operands(out) + first * c);
  });
}

template <typename T>
void CpuOps<T>::linear_backward_input(const Linear& linear, Slot dy, Slot dx) {
  const T* const from = operands(dy);
  touch(linear);
  linear.backward_input(threads_, tokens_, weights(), from, operands(dx));
  if (adapters_) adapters_->backward_input(linear, tokens_, weights(), from, operands(dx));
}

template <typename T>
void CpuOps<T>::linear_backward_weight(const Linear& linear, Slot dy, Slot x) {
  const T* const from = operands(dy);
  const T* const input = operands(x);
  linear.backward_weight(threads_, tokens_, from, input, *sink_, factors_);
  if (adapters_) adapters_->backward_weight(linear, tokens_, weights(), from, input, *sink_);
}

template <typename T>
void CpuOps<T>::attention_backward(const tensor::AttentionShape& shape, const AttentionSlots& slots,
                                   Slot dout) {
  over_heads(shape, [&](const Document& part, int64_t head, tensor::AttentionScratch& scratch) {
    tensor::attention_backward<T>(shape, *rope_, part.count, head,
                                  operands(slots.qkv_NW) + part.first * shape.qkv_width(),
                                  operands(slots.out_NC) + part.first * shape.width(),
                                  operands(dout) + part.first * shape.width(),
                                  floats(slots.log_sum_exp_NH) + part.first * shape.heads, scratch);
  });
}

template <typename T>
void CpuOps<T>::swiglu_backward(Slot gate_up, Slot dout, Slot out) {
  const int64_t f = width(out);
  over_tokens([&](int64_t first, int64_t count) {
    tensor::kernels<T>().swiglu_backward(count, f, operands(gate_up) + first * 2 * f,
                                         operands(dout) + first * f, operands(out) + first * f);
  });
}

template <typename T>
void CpuOps<T>::embed_backward(Slot dx, int64_t table) {
  if (!is_trained(table)) return;
  const int64_t c = width(dx);
  over_slabs(table, vocabulary_, c, [&](const tensor::GradientRange& slab) {
    sum_token_gradients(floats(dx), c, table, slab);
    sink_->complete(slab);
  });
}

template <typename T>
void CpuOps<T>::sum_token_gradients(const float* dx, int64_t c, int64_t table,
                                    const tensor::GradientRange& slab) {
  const TimedScope timed(times_.between);
  const int64_t first = (slab.offset - table) / c, rows = slab.count / c;
  float* const to = open_accumulator(slab);
  // Each thread adds up a range of columns over all tokens, in the order of tokens.
  threads_.for_ranges(c, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = 0; i < tokens_; ++i) {
      const int64_t row = inputs_[i] - first;
      if (row < 0 || row >= rows) continue;
      tensor::kernels<T>().add(end - begin, dx + i * c + begin, to + row * c + begin);
    }
  });
}

template <typename T>
size_t CpuOps<T>::bytes() const {
  size_t sum = factors_.bytes() + (rope_ ? rope_->bytes() : 0) + dnorm_.bytes() +
               (head_ ? head_->bytes() : 0) + losses_N_.capacity() * sizeof(float) +
               (copy_ ? copy_->bytes() : 0) + (frozen_copy_ ? frozen_copy_->bytes() : 0) +
               (adapters_ ? adapters_->bytes() : 0);
  for (const Values& values : slots_) sum += values.bytes.bytes();
  for (const auto& scratch : scratch_) sum += scratch.bytes();
  return sum;
}

template class CpuOps<float>;
template class CpuOps<Bf16>;

}  // namespace thinwire::model
