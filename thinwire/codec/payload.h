// The header of every payload that members exchange, and its check (docs/formats.md). A payload is
// the header followed by the method's own bytes. If it is damaged or belongs elsewhere, it is
// refused before any of it is decoded.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/payload_format.h"

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
// and sender; kStaleRound for one of another run, epoch or round.
Result<std::span<const uint8_t>> open_payload(std::span<const uint8_t> payload,
                                              const PayloadId& expected);

}  // namespace thinwire::codec
