// Sparse pseudo-gradients (docs/methods/sparse.md): a worker sends the largest values of each chunk
// of its pseudo-gradient in two bits and keeps the rest; the mean is formed of what all sent. The
// bits of both depend neither on the number of threads nor on the instruction set.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/method/sparse.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

class SparseCodec {
 public:
  // The layout and the threads outlive it.
  SparseCodec(const method::SparseOptions& options, const tensor::Layout& layout,
              ThreadPool& threads);

  // error = decay * error + (shared - params). Returns a payload of its largest values, quantised;
  // what receivers get of them is taken out of the error.
  Bytes encode(const tensor::Arena& shared, const tensor::Arena& params,
               const codec::PayloadId& id);

  // out = sum over payloads, in order, of weight * values; one weight a payload. `id` says which
  // round they must belong to; the sender is the delivery's member. `out` is as long as an arena.
  Result<void> sum(std::span<const transport::Delivery> deliveries, std::span<const float> weights,
                   const codec::PayloadId& id, std::span<float> out);

  // The values of a payload of this worker's own, of the round of `id`, go back into the error.
  Result<void> put_back(const Bytes& payload, const codec::PayloadId& id);

  std::span<float> error() { return error_.all(); }

 private:
  struct Kind {
    int slots;
    int kept;
  };
  Result<void> decode(std::span<const uint8_t> payload, const codec::PayloadId& id,
                      codec::SparseMessage& message) const;
  void gather(const tensor::Arena& shared, const tensor::Arena& params);
  void take_segment(const codec::SparseSegment& segment, std::vector<codec::TopK>& top_k);
  void quantise_tensor(size_t tensor);
  void add_segment(size_t segment, std::span<const float> weights, std::span<float> sum) const;
  // Where the values of a part begin in an arena.
  int64_t place(size_t part, int64_t tile) const {
    return places_[part] + tile * shapes_[part].slots;
  }

  float decay_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  method::ChunkPlan chunks_;
  std::vector<codec::SparseShape> shapes_;  // a part
  std::vector<int64_t> places_;             // a part
  std::vector<size_t> kinds_of_;            // a part
  std::vector<Kind> kinds_;
  std::vector<codec::SparseSegment> segments_;
  tensor::Arena error_;  // e
  codec::SparseTiles sent_;
  std::vector<uint32_t> guesses_;                // a tile; TopK::take
  std::vector<float> exact_;                     // values before quantisation
  std::vector<std::vector<codec::TopK>> top_k_;  // a thread and kind
  std::vector<codec::SparseMessage> received_;   // a payload
};

}  // namespace thinwire::sync
