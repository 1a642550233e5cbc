// What decoders and scorers compute with: the forward operations for texts whose earlier tokens are
// known, on the CPU (decode_ops.h) or with LibTorch (torch_ops.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/model/model.h"
#include "thinwire/model/ops.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

// What a decoder or scorer is made from. params and threads must outlive it.
struct DecoderParts {
  const method::ModelSpec& model;
  const tensor::Arena& params;  // laid out as method::tensors_of(model) says
  ThreadPool& threads;
  int64_t context;  // the largest number of tokens in the sequence
  // If set, it computes there, with the arena's copy there or, without one, with a copy of its own
  // in fp32, made once.
  Placement placement = {};
};

// Consecutive new tokens of one text.
struct Segment {
  int64_t row;       // of the first of them among the tokens computed together
  int64_t count;     // at most Decoding::chunk()
  int64_t position;  // of the first of them in its text
};

// Attention computes the new tokens from the cached keys and values of all tokens before them.
// fp32.
class Decoding {
 public:
  virtual ~Decoding() = default;

  // For the graph, whose forward() then computes the tokens.
  virtual Ops& ops() = 0;
  // Largest number of tokens of a segment.
  virtual int64_t chunk() const = 0;

  // The text is about to grow to `length` tokens: dynamically scaled positions of new tokens depend
  // on it; those in the cache remain what they were, as in transformers.
  virtual void grow_to(int64_t length) = 0;
  // The next tokens, one after another in these segments. A segment sees what the cache holds for
  // the positions before its own: what earlier segments and earlier calls last stored there.
  virtual void begin_tokens(std::span<const int32_t> tokens, std::vector<Segment> segments) = 0;
  // Logits [rows, vocabulary] of these rows of x, from the last product, in host memory.
  virtual void logits(Slot x, std::span<const int64_t> rows, int64_t weight,
                      std::span<float> out) = 0;
};

// The memory of what is kept of a text, wherever that is.
std::vector<MemoryPart> cache_memory(const method::ModelSpec& model, int64_t context);

// max_tokens: computed together, in one or several segments; 0: in one. Throws Error if the device
// lacks memory.
std::unique_ptr<Decoding> make_decoding(const DecoderParts& parts, int64_t max_tokens = 0);

}  // namespace thinwire::model
