#include "thinwire/model/decode_ops.h"

#include <algorithm>
#include <utility>

#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/torch_ops.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/few_rows.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::model {

using tensor::kernels;

namespace {

// One thread reads this much in some 20 to 100 microseconds.
constexpr int64_t kBytesWorthWaking = int64_t{1} << 20;
// The same for helpers that are awake.
constexpr int64_t kBytesWorthHelping = int64_t{1} << 18;
// Models whose tokens take one thread less than a few milliseconds.
constexpr size_t kSmallModel = size_t{16} << 20;
// Values of a block of bf16 weights that are widened for a product.
constexpr int64_t kWidenedBlock = int64_t{1} << 18;

}  // namespace

// Passes over a few rows run on the calling thread: waking others would take longer.
DecodeOps::DecodeOps(const DecoderParts& parts, int64_t max_tokens)
    : CpuOps(parts.params, nullptr, parts.threads, max_tokens > kChunk ? &parts.threads : nullptr,
             max_tokens, parts.context),
      weights_(parts.params),
      context_(parts.context),
      small_(parts.params.bytes().size() < kSmallModel),
      helpers_(parts.threads.size() - 1),
      widened_(static_cast<size_t>(parts.threads.size())) {}

ThreadPool& DecodeOps::threads_for(int64_t bytes) {
  return bytes < kBytesWorthWaking ? one_thread_ : threads_;
}

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
  const auto width =
      static_cast<double>(method::find_architecture(model.architecture).head_size(model));
  const double scratch = threads * positions * (9 * width + 1);  // tensor::AttentionScratch
  std::vector<MemoryPart> parts = cache_memory(model, context);
  parts.push_back({"buffers of threads", sizeof(float) * scratch});
  return parts;
}

std::vector<MemoryPart> cache_memory(const method::ModelSpec& model, int64_t context) {
  const auto positions = static_cast<double>(context);
  const method::Architecture& architecture = method::find_architecture(model.architecture);
  const auto width = static_cast<double>(architecture.head_size(model));
  const double caches = architecture.kept_per_token(model) * positions;
  return {{"keys and values", sizeof(float) * caches},
          {"rotary table", sizeof(float) * positions * width}};
}

std::vector<MemoryPart> torch_decoding_memory(const DecoderParts& parts) {
  std::vector<MemoryPart> needed = cache_memory(parts.model, parts.context);
  // On the CPU, fp32 weights stay where they are, and so does what a device already has.
  const bool shared =
      parts.placement->kind == Device::kCpu && parts.params.format() == WeightFormat::kF32;
  if (!shared && parts.params.device() == nullptr) {
    needed.push_back(
        {"weights", sizeof(float) * static_cast<double>(parts.params.layout().total())});
  }
  return needed;
}

void DecodeOps::begin_tokens(std::span<const int32_t> tokens, std::vector<Segment> segments) {
  CpuOps::begin_tokens(tokens.data(), static_cast<int64_t>(tokens.size()));
  segments_ = std::move(segments);
}

void DecodeOps::attention(int64_t layer, const tensor::AttentionShape& shape,
                          const AttentionSlots& slots) {
  Cache& cache = caches_[static_cast<size_t>(layer)];
  int64_t bytes = 0;
  for (const Segment& segment : segments_) {
    const int64_t seen = segment.position + segment.count;
    bytes += segment.count * seen * shape.heads * shape.head_size * int64_t{2 * sizeof(float)};
  }
  threads_for(bytes).for_ranges(shape.kv_heads, 1, [&](int64_t begin, int64_t end, int thread) {
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
  multiply(count, vocabulary, c, rows_RC_.data(), c, weight, out.data(), vocabulary);
}

void DecodeOps::linear(const Linear& linear, Slot x, Slot y) {
  const int64_t inputs = linear.inputs();
  touch(linear);
  for (const Linear::Part& part : linear.parts()) {
    multiply(tokens_, part.outputs, inputs, floats(x), inputs, part.offset, floats(y) + part.column,
             linear.outputs());
  }
}

void DecodeOps::multiply(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx,
                         int64_t weight, float* y, int64_t ldy) {
  const bool bf16 = weights_.format() == WeightFormat::kBf16;
  const int64_t bytes = n * k * static_cast<int64_t>(bf16 ? sizeof(Bf16) : sizeof(float));
  if (m <= tensor::kFewRows) {
    HelperThreads& helpers = small_ || bytes < kBytesWorthHelping ? no_helpers_ : helpers_;
    if (!bf16) {
      return tensor::multiply_few_rows(helpers, m, n, k, x, ldx, parameter(weight), y, ldy);
    }
    return tensor::multiply_few_rows(helpers, m, n, k, x, ldx, weights_.bf16() + weight, y, ldy);
  }
  if (bf16) return multiply_widened(m, n, k, x, ldx, weights_.bf16() + weight, y, ldy);
  tensor::gemm(threads_for(m * bytes), tensor::Transpose::kNo, tensor::Transpose::kYes, m, n, k, x,
               ldx, parameter(weight), k, 0.0f, y, ldy);
}

void DecodeOps::multiply_widened(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx,
                                 const Bf16* weights, float* y, int64_t ldy) {
  const int64_t rows = std::max<int64_t>(kWidenedBlock / k, 1);
  threads_for(m * n * k).for_ranges(n, 16, [&](int64_t begin, int64_t end, int thread) {
    tensor::AlignedBuffer<float>& block = widened_[static_cast<size_t>(thread)];
    if (block.bytes() < static_cast<size_t>(rows * k) * sizeof(float)) {
      block = tensor::AlignedBuffer<float>(rows * k);
    }
    for (int64_t row = begin; row < end; row += rows) {
      const int64_t count = std::min(rows, end - row);
      kernels<Bf16>().load_rows(count, k, nullptr, weights + row * k, k, block.data(), k);
      tensor::gemm(tensor::Transpose::kNo, tensor::Transpose::kYes, m, count, k, x, ldx,
                   static_cast<const float*>(block.data()), k, 0.0f, y + row, ldy);
    }
  });
}

std::unique_ptr<Decoding> make_decoding(const DecoderParts& parts, int64_t max_tokens) {
  if (parts.placement) return make_torch_decoding(parts);
  return std::make_unique<DecodeOps>(parts, max_tokens > 0 ? max_tokens : DecodeOps::kChunk);
}

}  // namespace thinwire::model
