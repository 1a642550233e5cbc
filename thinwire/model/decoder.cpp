#include "thinwire/model/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/model/llama.h"
#include "thinwire/model/weights.h"
#include "thinwire/tensor/aligned_buffer.h"
#include "thinwire/tensor/gemm.h"
#include "thinwire/tensor/kernels.h"

namespace thinwire::model {
namespace {

using tensor::AlignedBuffer;
using tensor::kernels;

// Tokens computed together; a block of queries for attend().
constexpr int64_t kChunk = tensor::kQueryBlock;

// Shape suffixes: N tokens of a chunk, C hidden, F intermediate, W a token's queries, keys and
// values, G key/value heads, P positions (the context), D head size.
class LlamaDecoder final : public Decoder {
 public:
  explicit LlamaDecoder(const DecoderParts& parts)
      : model_(parts.model),
        where_(model_, parts.params.layout()),
        params_(parts.params.all().data()),
        threads_(parts.threads),
        context_(parts.context),
        rope_(context_, model_.head_size(), model_.rope_theta),
        x_NC_(kChunk * model_.hidden),
        hidden_NC_(kChunk * model_.hidden),
        branch_NC_(kChunk * model_.hidden),
        attention_NC_(kChunk * model_.hidden),
        qkv_NW_(kChunk * where_.attention.qkv_width()),
        gate_up_N2F_(kChunk * 2 * model_.intermediate),
        inner_NF_(kChunk * model_.intermediate),
        rstd_N_(kChunk),
        logits_(static_cast<size_t>(model_.vocab)) {
    const int64_t cached = model_.kv_heads * context_ * model_.head_size();
    for (int64_t layer = 0; layer < model_.layers; ++layer) {
      caches_.push_back({AlignedBuffer<float>(cached), AlignedBuffer<float>(cached)});
    }
    for (int i = 0; i < threads_.size(); ++i) scratch_.emplace_back(context_, model_.head_size());
  }

  std::span<const float> prefill(std::span<const int32_t> tokens) override {
    if (tokens.empty()) throw Error("there are no tokens to continue from");
    check_tokens(tokens, model_.vocab);
    const auto count = static_cast<int64_t>(tokens.size());
    if (count > context_ - position_) {
      throw Error(fmt::format("the context of {} tokens is full: {} are in it, {} more do not fit",
                              context_, position_, count));
    }
    for (int64_t first = 0; first < count; first += kChunk) {
      const int64_t size = std::min(kChunk, count - first);
      forward(tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(size)));
      position_ += size;
    }
    compute_logits((count - 1) % kChunk);
    return logits_;
  }

  int64_t position() const override { return position_; }
  int64_t context() const override { return context_; }
  void reset() override { position_ = 0; }

 private:
  struct Cache {
    AlignedBuffer<float> keys_GPD, values_GPD;  // keys are rotated
  };

  void forward(std::span<const int32_t> tokens) {
    const auto count = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(params_ + where_.embedding + tokens[i] * model_.hidden, model_.hidden,
                  x_NC_.data() + i * model_.hidden);
    }
    for (size_t layer = 0; layer < where_.blocks.size(); ++layer) {
      forward_block(where_.blocks[layer], caches_[layer], count, layer > 0);
    }
    norm(count, true, where_.final_norm);
  }

  void forward_block(const BlockWeights& block, Cache& cache, int64_t count, bool add_branch) {
    norm(count, add_branch, block.attention_norm);
    block.qkv.forward(threads_, count, params_, hidden_NC_.data(), qkv_NW_.data());
    threads_.for_ranges(model_.kv_heads, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t head = begin; head < end; ++head) attend(cache, head, count, scratch_[thread]);
    });
    block.o.forward(threads_, count, params_, attention_NC_.data(), branch_NC_.data());
    norm(count, true, block.mlp_norm);
    block.gate_up.forward(threads_, count, params_, hidden_NC_.data(), gate_up_N2F_.data());
    kernels<float>().swiglu(count, model_.intermediate, gate_up_N2F_.data(), inner_NF_.data());
    block.down.forward(threads_, count, params_, inner_NF_.data(), branch_NC_.data());
  }

  // x += branch (if wanted), hidden = rmsnorm(x).
  void norm(int64_t count, bool add_branch, int64_t weight) {
    kernels<float>().add_rmsnorm(count, model_.hidden, x_NC_.data(),
                                 add_branch ? branch_NC_.data() : nullptr, params_ + weight,
                                 static_cast<float>(model_.norm_eps), x_NC_.data(), rstd_N_.data(),
                                 hidden_NC_.data());
  }

  // Puts the new keys and values of one head into the cache, then answers its queries.
  void attend(Cache& cache, int64_t kv_head, int64_t count, tensor::AttentionScratch& scratch) {
    const tensor::AttentionShape& shape = where_.attention;
    const int64_t d = shape.head_size, width = shape.qkv_width();
    const float* const cosine = rope_.cosine(position_);
    const float* const sine = rope_.sine(position_);
    float* const keys = cache.keys_GPD.data() + kv_head * context_ * d;
    float* const values = cache.values_GPD.data() + kv_head * context_ * d;
    const float* const key = qkv_NW_.data() + (shape.heads + kv_head) * d;
    kernels<float>().rotate_load(tensor::Rotation::kForward, count, d, cosine, sine, 1.0f, key,
                                 width, keys + position_ * d, d);
    kernels<float>().load_rows(count, d, nullptr, key + shape.kv_heads * d, width,
                               values + position_ * d, d);
    for (int64_t i = 0; i < shape.group(); ++i) {
      const int64_t head = kv_head * shape.group() + i;
      kernels<float>().rotate_load(tensor::Rotation::kForward, count, d, cosine, sine,
                                   shape.score_scale(), qkv_NW_.data() + head * d, width,
                                   scratch.query.data(), d);
      tensor::attend(count, position_, d, scratch.query.data(), keys, values, scratch.scores.data(),
                     scratch.output.data(), scratch.inverse_sum.data(), scratch.log_sum_exp.data());
      kernels<float>().store_rows(count, d, scratch.inverse_sum.data(), scratch.output.data(), d,
                                  attention_NC_.data() + head * d, model_.hidden);
    }
  }

  void compute_logits(int64_t row) {
    const int64_t c = model_.hidden;
    tensor::gemm(threads_, tensor::Transpose::kNo, tensor::Transpose::kYes, 1, model_.vocab, c,
                 static_cast<const float*>(hidden_NC_.data()) + row * c, c, params_ + where_.head,
                 c, 0.0f, logits_.data(), model_.vocab);
  }

  const config::ModelSection model_;
  const LlamaWeights where_;
  const float* const params_;
  ThreadPool& threads_;
  const int64_t context_;
  const tensor::RopeTable rope_;
  std::vector<Cache> caches_;  // for each block
  AlignedBuffer<float> x_NC_, hidden_NC_, branch_NC_, attention_NC_, qkv_NW_, gate_up_N2F_,
      inner_NF_, rstd_N_;
  std::vector<tensor::AttentionScratch> scratch_;  // for each thread
  std::vector<float> logits_;
  int64_t position_ = 0;
};

}  // namespace

std::unique_ptr<Decoder> make_llama_decoder(const DecoderParts& parts) {
  return std::make_unique<LlamaDecoder>(parts);
}

std::vector<MemoryPart> llama_decoder_memory(const config::ModelSection& model, int64_t context,
                                             int threads) {
  const auto positions = static_cast<double>(context);
  const auto width = static_cast<double>(model.head_size());
  const double caches =
      2.0 * static_cast<double>(model.layers * model.kv_heads) * positions * width;
  const double scratch = threads * positions * (9 * width + 1);  // tensor::AttentionScratch
  return {{"keys and values", sizeof(float) * caches},
          {"rotary table", sizeof(float) * positions * width},
          {"buffers of threads", sizeof(float) * scratch}};
}

}  // namespace thinwire::model
