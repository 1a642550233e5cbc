// The forward operations for one growing text: attention computes the new tokens from the cached
// keys and values of all tokens before them. fp32, on the CPU.
#pragma once

#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/memory.h"
#include "thinwire/model/cpu_ops.h"
#include "thinwire/model/decoder.h"

namespace thinwire::model {

class DecodeOps final : public CpuOps<float> {
 public:
  // Largest number of tokens computed together: a block of queries for tensor::attend().
  static constexpr int64_t kChunk = kQueryBlock;

  explicit DecodeOps(const DecoderParts& parts);

  // What it allocates for a context.
  static std::vector<MemoryPart> memory(const method::ModelSpec& model, int64_t context,
                                        int threads);

  void plan_attention(int64_t layers, const tensor::AttentionShape& shape,
                      const RopeSpec& rope) override;

  // The text is about to grow to `length` tokens: dynamically scaled positions of new tokens depend
  // on it; those in the cache remain what they were, as in transformers.
  void grow_to(int64_t length) { fit_rope(length); }

  // The next `tokens` (at most kChunk), from `position` on.
  void begin_tokens(std::span<const int32_t> tokens, int64_t position);

  void attention(int64_t layer, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override;

  // Logits [vocabulary] of row `row` of x, from the last product.
  void logits(Slot x, int64_t row, int64_t weight, std::span<float> out);

 private:
  // G key/value heads, P positions (the context), D head size.
  struct Cache {
    tensor::AlignedBuffer<float> keys_GPD, values_GPD;  // keys are rotated
  };

  // Puts the new keys and values of one head into the cache, then computes its queries.
  void attend(Cache& cache, const tensor::AttentionShape& shape, const AttentionSlots& slots,
              int64_t kv_head, tensor::AttentionScratch& scratch);

  const int64_t context_;
  std::vector<Cache> caches_;  // for each block
  int64_t position_ = 0;       // of the first current token
};

}  // namespace thinwire::model
