// What a payload holds, without applying it: for the code that decides whether it may count. Each
// algorithm that exchanges payloads has a reader that uses the same codec as its strategy; a new
// one is a line of the table in payload_reader.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/wire.h"
#include "thinwire/codec/aggregation.h"
#include "thinwire/codec/payload.h"
#include "thinwire/method/sync_spec.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::codec {

struct PayloadContent {
  Magnitude magnitude;            // of its values; finite
  std::span<const uint8_t> body;  // the payload without its header
  std::vector<float> direction;   // of its values (value_sketch.h); empty if all are zero
};

// Used by one thread.
class PayloadReader {
 public:
  virtual ~PayloadReader() = default;
  // A payload of an operation: `id` says where it must belong (its method is the reader's), and it
  // may have at most `max_bytes`. Fails with kCorruptPayload or kStaleRound and the reason if a
  // strategy could not apply it, or if a value is not finite.
  virtual Result<PayloadContent> read(std::span<const uint8_t> payload, PayloadId id,
                                      uint64_t max_bytes) = 0;
  // Whether members multiply what they send by their weight in the round.
  virtual bool weighted() const = 0;
};

// The format in which an algorithm's sums of what members send are sent; null for one that sends no
// sums of dense values.
const WireCodec* sum_codec(const method::AlgorithmSpec& algorithm);

// For an algorithm and the model's layout, which need not outlive the reader; null for one whose
// payloads nobody can read. `lone_worker`: the run begins with one worker, whose gradient
// all-reduce exchanges as fp32 while it is alone (Round::followed); operations state that size.
// `seed`: of the sketches.
std::unique_ptr<PayloadReader> make_payload_reader(const method::AlgorithmSpec& algorithm,
                                                   const tensor::Layout& layout,
                                                   bool lone_worker = false, uint64_t seed = 0);

}  // namespace thinwire::codec
