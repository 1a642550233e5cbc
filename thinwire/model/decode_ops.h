// The forward operations for one text that grows: attention answers the new tokens from the keys
// and values it keeps of all before them. fp32, on the processor.
#pragma once

#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/memory.h"
#include "thinwire/model/cpu_ops.h"
#include "thinwire/model/decoder.h"

namespace thinwire::model {

class DecodeOps final : public CpuOps<float> {
 public:
  // Tokens computed together, at most; a block of queries for tensor::attend().
  static constexpr int64_t kChunk = kQueryBlock;

  explicit DecodeOps(const DecoderParts& parts);

  // What it allocates for the context.
  static std::vector<MemoryPart> memory(const method::ModelSpec& model, int64_t context,
                                        int threads);

  void plan_attention(int64_t layers, const tensor::AttentionShape& shape, double theta) override;

  // The next `tokens` (at most kChunk) stand at `position` and behind it.
  void begin_tokens(std::span<const int32_t> tokens, int64_t position);

  void attention(int64_t layer, const tensor::AttentionShape& shape,
                 const AttentionSlots& slots) override;

  // Logits [vocabulary] of row `row` of x, by the last product.
  void logits(Slot x, int64_t row, int64_t weight, std::span<float> out);

 private:
  // G key/value heads, P positions (the context), D head size.
  struct Cache {
    tensor::AlignedBuffer<float> keys_GPD, values_GPD;  // keys are rotated
  };

  // Puts the new keys and values of one head into the cache, then answers its queries.
  void attend(Cache& cache, const tensor::AttentionShape& shape, const AttentionSlots& slots,
              int64_t kv_head, tensor::AttentionScratch& scratch);

  const int64_t context_;
  std::vector<Cache> caches_;  // for each block
  int64_t position_ = 0;       // of the first of the present tokens
};

}  // namespace thinwire::model
