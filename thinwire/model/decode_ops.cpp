#include "thinwire/model/decode_ops.h"

#include <algorithm>
#include <utility>

#include "thinwire/method/architectures/architectures.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {

using tensor::kernels;

// Passes over a few rows run on the calling thread: waking others would take longer.
DecodeOps::DecodeOps(const DecoderParts& parts, int64_t max_tokens)
    : CpuOps(parts.params, nullptr, parts.threads, max_tokens > kChunk ? &parts.threads : nullptr,
             max_tokens, parts.context),
      context_(parts.context) {}

void DecodeOps::plan_attention(int64_t layers, const tensor::AttentionShape& shape,
                               const RopeSpec& rope) {
  CpuOps::plan_attention(layers, shape, rope);
  const int64_t cached = shape.kv_heads * context_ * shape.head_size;
  caches_.clear();
  for (int64_t layer = 0; layer < layers; ++layer) {
    caches_.push_back({tensor::AlignedBuffer<float>(cached), tensor::AlignedBuffer<float>(cached)});
  }
}

std::vector<MemoryPart> DecodeOps::memory(const method::ModelSpec& model, int64_t context,
                                          int threads) {
  const auto positions = static_cast<double>(context);
  const method::Architecture& architecture = method::find_architecture(model.architecture);
  const auto width = static_cast<double>(architecture.head_size(model));
  const double caches = architecture.kept_per_token(model) * positions;
  const double scratch = threads * positions * (9 * width + 1);  // tensor::AttentionScratch
  return {{"keys and values", sizeof(float) * caches},
          {"rotary table", sizeof(float) * positions * width},
          {"buffers of threads", sizeof(float) * scratch}};
}

void DecodeOps::begin_tokens(std::span<const int32_t> tokens, std::vector<Segment> segments) {
  CpuOps::begin_tokens(tokens.data(), static_cast<int64_t>(tokens.size()));
  segments_ = std::move(segments);
}

void DecodeOps::attention(int64_t layer, const tensor::AttentionShape& shape,
                          const AttentionSlots& slots) {
  Cache& cache = caches_[static_cast<size_t>(layer)];
  threads_.for_ranges(shape.kv_heads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t head = begin; head < end; ++head) {
      for (const Segment& segment : segments_) {
        attend(cache, shape, slots, segment, head, scratch_[thread]);
      }
    }
  });
}

void DecodeOps::attend(Cache& cache, const tensor::AttentionShape& shape,
                       const AttentionSlots& slots, const Segment& segment, int64_t kv_head,
                       tensor::AttentionScratch& scratch) {
  const int64_t d = shape.head_size, width = shape.qkv_width();
  const auto [row, count, position] = segment;
  const float* const qkv = floats(slots.qkv_NW) + row * width;
  const float* const cosine = rope_->cosine(position);
  const float* const sine = rope_->sine(position);
  float* const keys = cache.keys_GPD.data() + kv_head * context_ * d;
  float* const values = cache.values_GPD.data() + kv_head * context_ * d;
  const float* const key = qkv + (shape.heads + kv_head) * d;
  kernels<float>().rotate_load(tensor::Rotation::kForward, count, d, cosine, sine, 1.0f, key, width,
                               keys + position * d, d);
  kernels<float>().load_rows(count, d, nullptr, key + shape.kv_heads * d, width,
                             values + position * d, d);
  for (int64_t i = 0; i < shape.group(); ++i) {
    const int64_t head = kv_head * shape.group() + i;
    kernels<float>().rotate_load(tensor::Rotation::kForward, count, d, cosine, sine,
                                 shape.score_scale(), qkv + head * d, width, scratch.query.data(),
                                 d);
    tensor::attend(shape, count, position, scratch.query.data(), keys, values,
                   scratch.scores.data(), scratch.output.data(), scratch.inverse_sum.data(),
                   scratch.log_sum_exp.data());
    kernels<float>().store_rows(count, d, scratch.inverse_sum.data(), scratch.output.data(), d,
                                floats(slots.out_NC) + row * shape.width() + head * d,
                                shape.width());
  }
}

void DecodeOps::logits(Slot x, std::span<const int64_t> rows, int64_t weight,
                       std::span<float> out) {
  const int64_t c = width(x), count = std::ssize(rows);
  const int64_t vocabulary = std::ssize(out) / count;
  if (rows_RC_.bytes() < static_cast<size_t>(count * c) * sizeof(float)) {
    rows_RC_ = tensor::AlignedBuffer<float>(count * c);
  }
  for (int64_t i = 0; i < count; ++i) {
    std::copy_n(floats(x) + rows[static_cast<size_t>(i)] * c, c, rows_RC_.data() + i * c);
  }
  tensor::gemm(threads_, tensor::Transpose::kNo, tensor::Transpose::kYes, count, vocabulary, c,
               static_cast<const float*>(rows_RC_.data()), c, parameter(weight), c, 0.0f,
               out.data(), vocabulary);
}

}  // namespace thinwire::model
