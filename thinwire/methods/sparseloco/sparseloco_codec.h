// Sparse pseudo-gradients (thinwire/methods/sparseloco/sparseloco.md): a worker sends the largest
// values of each chunk of its pseudo-gradient in two bits each and keeps the rest; the mean is
// taken over what all workers sent. The bits of both depend neither on the number of threads nor on
// the instruction set.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "thinwire/base/aggregate.h"
#include "thinwire/codec/payload.h"
#include "thinwire/codec/sparse.h"
#include "thinwire/codec/top_k.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/transport/communicator.h"

namespace thinwire::sync {

class SparseLocoCodec {
 public:
  // The layout and the threads must outlive the codec. `aggregate`: the rule by which sum()
  // combines payloads.
  SparseLocoCodec(const method::SparseLocoOptions& options, const AggregateOptions& aggregate,
                  const tensor::Layout& layout, ThreadPool& threads);

  // Sets error = decay * error + (shared - params) and returns a payload with its largest values,
  // quantised. Subtracts from the error the values as receivers will decode them.
  Bytes encode(const tensor::Arena& shared, const tensor::Arena& params,
               const codec::PayloadId& id);

  // out = the sum of weight * values over the payloads, in order, with one weight per payload,
  // divided by the weight of a value's senders if the options say so; or their aggregate by the
  // rule. All payloads must belong to the round in `id`, or, late ones, to an earlier one; the
  // sender of each is its delivery's member. `out` has the length of an arena. A payload that does
  // not decode is a failure; with a rule other than the mean it is left out, and the failure is
  // that none decodes.
  Result<void> sum(std::span<const transport::Delivery> deliveries, std::span<const float> weights,
                   const codec::PayloadId& id, std::span<float> out);

  // out = the values of a message of these shapes, which have the tiles of payloads, and zeros.
  void expand(const codec::SparseMessage& mean, std::span<const codec::SparseShape> shapes,
              std::span<float> out) const;

  // Adds the values of this worker's own payload from the round in `id` back to the error.
  // `reduce`, if it is not empty, says which of them: it removes the others, and returns whether
  // any are left.
  using Reduce = std::function<bool(codec::SparseTiles& sent)>;
  Result<void> add_back(const Bytes& payload, const codec::PayloadId& id,
                        const Reduce& reduce = {});

  std::span<float> error() { return error_.all(); }

 private:
  struct Kind {
    int slots;
    int kept;
  };
  Result<void> decode(std::span<const uint8_t> payload, const codec::PayloadId& id, bool late,
                      codec::SparseMessage& message) const;
  void gather(const tensor::Arena& shared, const tensor::Arena& params);
  void take_segment(const codec::SparseSegment& segment, std::vector<codec::TopK>& top_k);
  void quantise_tensor(size_t tensor);
  // Decodes into received_; returns for each payload why it cannot be decoded.
  std::vector<std::optional<Failure>> decode(std::span<const transport::Delivery> deliveries,
                                             const codec::PayloadId& id);
  void add_segment(size_t segment, std::span<const float> weights, std::span<float> sum) const;
  // Divides the sum of a segment at each value by the weight of those that sent it.
  void divide_by_senders(size_t segment, std::span<const float> weights,
                         std::span<float> sum) const;
  // The aggregate of the first `weights.size()` of received_.
  void aggregate(std::span<const float> weights, std::span<float> out);
  // The position in an arena at which the values of a part's tile begin.
  int64_t place(size_t part, int64_t tile) const {
    return places_[part] + tile * shapes_[part].slots;
  }

  float decay_;
  bool of_senders_;
  const AggregateOptions aggregate_;
  const tensor::Layout& layout_;
  ThreadPool& threads_;
  method::ChunkPlan chunks_;
  std::vector<codec::SparseShape> shapes_;  // by part
  std::vector<int64_t> places_;             // by part
  std::vector<size_t> kinds_of_;            // by part
  std::vector<Kind> kinds_;
  std::vector<codec::SparseSegment> segments_;
  tensor::Arena error_;  // e
  codec::SparseTiles sent_;
  std::vector<uint32_t> guesses_;                // by tile; see TopK::take
  std::vector<float> exact_;                     // values before quantisation
  std::vector<std::vector<codec::TopK>> top_k_;  // by thread and kind
  std::vector<codec::SparseMessage> received_;   // by payload
};

}  // namespace thinwire::sync
