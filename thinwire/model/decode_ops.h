// Decoding (decoding.h) on the CPU. The weights may be bf16, whose values are used as they are.
#pragma once

#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/memory.h"
#include "thinwire/base/threads.h"
#include "thinwire/model/cpu_ops.h"
#include "thinwire/model/decoding.h"

namespace thinwire::model {

class DecodeOps final : public CpuOps<float>, public Decoding {
 public:
  // Largest number of tokens of a segment: a block of queries for tensor::attend().
  static constexpr int64_t kChunk = kQueryBlock;

  // max_tokens: computed together, in one or several segments.
  explicit DecodeOps(const DecoderParts& parts, int64_t max_tokens = kChunk);

  // What it allocates for a context.
  static std::vector<MemoryPart> memory(const method::ModelSpec& model, int64_t context,
                                        int threads);

  void plan_attention(int64_t layers, const tensor::AttentionShape& shape,
                      const RopeSpec& rope) override;

  Ops& ops() override { return *this; }
  int64_t chunk() const override { return kChunk; }
  void grow_to(int64_t length) override { fit_rope(length); }
  void begin_tokens(std::span<const int32_t> tokens, std::vector<Segment> segments) override;

  void linear(const Linear& linear, Slot x, Slot y) override;
  void attention(int64_t layer, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override;

  void logits(Slot x, std::span<const int64_t> rows, int64_t weight, std::span<float> out) override;

 private:
  // G key/value heads, P positions (the context), D head size.
  struct Cache {
    tensor::AlignedBuffer<float> keys_GPD, values_GPD;  // keys are rotated
  };

  // The threads for work that reads so many bytes: only the calling one where waking others would
  // take longer.
  ThreadPool& threads_for(int64_t bytes);
  // y = x W^T for m rows of x [m, k] and y [m, n] and the weights W [n, k] at an offset.
  void multiply(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx, int64_t weight,
                float* y, int64_t ldy);
  // The same for many rows and bf16 weights.
  void multiply_widened(int64_t m, int64_t n, int64_t k, const float* x, int64_t ldx,
                        const Bf16* weights, float* y, int64_t ldy);
  // Puts a segment's keys and values of one head into the cache, then computes its queries.
  void attend(Cache& cache, const tensor::AttentionShape& shape, const AttentionSlots& slots,
              const Segment& segment, int64_t kv_head, tensor::AttentionScratch& scratch);

  const tensor::Arena& weights_;
  const int64_t context_;
  const bool small_;  // the whole model is read before a thread is awake
  ThreadPool one_thread_{1};
  HelperThreads helpers_, no_helpers_{0};              // of products with few rows
  std::vector<tensor::AlignedBuffer<float>> widened_;  // for each thread
  std::vector<Cache> caches_;                          // for each block
  std::vector<Segment> segments_;                      // of the current tokens
  tensor::AlignedBuffer<float> rows_RC_;               // inputs of the last product
};

}  // namespace thinwire::model
