#include "thinwire/model/decode_ops.h"

#include "thinwire/method/architectures.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {

using tensor::kernels;

// Passes over a few rows run on the calling thread: waking others would take longer.
DecodeOps::DecodeOps(const DecoderParts& parts)
    : CpuOps(parts.params, nullptr, parts.threads, nullptr, kChunk, parts.context),
      context_(parts.context) {}

void DecodeOps::plan_attention(int64_t layers, const tensor::AttentionShape& shape, double theta) {
  CpuOps::plan_attention(layers, shape, theta);
  const int64_t cached = shape.kv_heads * context_ * shape.head_size;
  caches_.clear();
  for (int64_t layer = 0; layer < layers; ++layer) {
    caches_.push_back({tensor::AlignedBuffer<float>(cached), tensor::AlignedBuffer<float>(cached)});
  }
}

std::vector<MemoryPart> DecodeOps::memory(const method::ModelSpec& model, int64_t context,
                                          int threads) {
  const auto positions = static_cast<double>(context);
  const auto width = static_cast<double>(model.head_size());
  const double caches =
      method::find_architecture(model.architecture).kept_a_token(model) * positions;
  const double scratch = threads * positions * (9 * width + 1);  // tensor::AttentionScratch
  return {{"keys and values", sizeof(float) * caches},
          {"rotary table", sizeof(float) * positions * width},
          {"buffers of threads", sizeof(float) * scratch}};
}

void DecodeOps::begin_tokens(std::span<const int32_t> tokens, int64_t position) {
  CpuOps::begin_tokens(tokens.data(), 1, static_cast<int64_t>(tokens.size()));
  position_ = position;
}

void DecodeOps::attention(int64_t layer, const tensor::AttentionShape& shape,
                          const AttentionSlots& slots) {
  Cache& cache = caches_[static_cast<size_t>(layer)];
  threads_.for_ranges(shape.kv_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t head = begin; head < end; ++head) {
      attend(cache, shape, slots, head, scratch_[thread]);
    }
  });
}

void DecodeOps::attend(Cache& cache, const tensor::AttentionShape& shape,
                       const AttentionSlots& slots, int64_t kv_head,
                       tensor::AttentionScratch& scratch) {
  const int64_t d = shape.head_size, width = shape.qkv_width(), count = tokens_;
  const float* const qkv = floats(slots.qkv_NW);
  const float* const cosine = rope_->cosine(position_);
  const float* const sine = rope_->sine(position_);
  float* const keys = cache.keys_GPD.data() + kv_head * context_ * d;
  float* const values = cache.values_GPD.data() + kv_head * context_ * d;
  const float* const key = qkv + (shape.heads + kv_head) * d;
  kernels<float>().rotate_load(tensor::Rotation::kForward, count, d, cosine, sine, 1.0f, key, width,
                               keys + position_ * d, d);
  kernels<float>().load_rows(count, d, nullptr, key + shape.kv_heads * d, width,
                             values + position_ * d, d);
  for (int64_t i = 0; i < shape.group(); ++i) {
    const int64_t head = kv_head * shape.group() + i;
    kernels<float>().rotate_load(tensor::Rotation::kForward, count, d, cosine, sine,
                                 shape.score_scale(), qkv + head * d, width, scratch.query.data(),
                                 d);
    tensor::attend(count, position_, d, scratch.query.data(), keys, values, scratch.scores.data(),
                   scratch.output.data(), scratch.inverse_sum.data(), scratch.log_sum_exp.data());
    kernels<float>().store_rows(count, d, scratch.inverse_sum.data(), scratch.output.data(), d,
                                floats(slots.out_NC) + head * d, shape.width());
  }
}

void DecodeOps::logits(Slot x, int64_t row, int64_t weight, std::span<float> out) {
  const int64_t c = width(x), vocabulary = static_cast<int64_t>(out.size());
  tensor::gemm(threads_, tensor::Transpose::kNo, tensor::Transpose::kYes, 1, vocabulary, c,
               static_cast<const float*>(floats(x)) + row * c, c, parameter(weight), c, 0.0f,
               out.data(), vocabulary);
}

}  // namespace thinwire::model
