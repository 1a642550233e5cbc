// The header of every payload that members exchange, and its check (docs/formats.md). A payload is
// the header followed by the method's own bytes. If it is damaged or belongs elsewhere, it is
// refused before any of it is decoded.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/payload_format.h"
#include "thinwire/base/wire.h"
#include "thinwire/codec/aggregation.h"
#include "thinwire/codec/sparse.h"

namespace thinwire::codec {

// Values of the header's field `method`.
enum class PayloadMethod : uint16_t { kDistro = 1, kSparseLoco = 2 };

// What a payload belongs to; sender and receiver must agree on every field.
struct PayloadId {
  PayloadMethod method = PayloadMethod::kDistro;
  uint64_t run = 0;
  uint32_t epoch = 0;
  uint32_t sender = 0;
  uint64_t round = 0;
};

// Sets `out` to a header without its checksum; the method appends its bytes and then seals it.
void begin_payload(const PayloadId& id, Bytes& out);
void seal_payload(Bytes& payload);

// The method's bytes. kCorruptPayload for anything but an undamaged payload of this version, method
// and sender; kStaleRound for one of another run, epoch or round; with `late`, of no earlier round.
Result<std::span<const uint8_t>> open_payload(std::span<const uint8_t> payload,
                                              const PayloadId& expected, bool late = false);

// What a payload holds, without applying it: for the code that decides whether it may count. An
// algorithm's reader (sync::Algorithm::payloads) uses the same codec as its strategy; here are the
// two kinds that there are.
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

// Contributions to dense sums: values and nothing else, in the format `wire`, or in `longest`, the
// format in which the operation's size is stated. `seed`: of the sketches.
std::unique_ptr<PayloadReader> dense_reader(WireType wire, WireType longest, uint64_t seed);

// A header of this method and a sparse message of these shapes.
std::unique_ptr<PayloadReader> sparse_reader(PayloadMethod method, ValueFormat format,
                                             std::vector<SparseShape> shapes, uint64_t seed);

}  // namespace thinwire::codec
