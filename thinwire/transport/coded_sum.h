// The arithmetic of an all_reduce: contributions as the codec passes them on, summed in fp32 from 0
// in member order, and the sum as the codec passes it on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"

namespace thinwire::transport {

// Memory for the values between encoding and decoding; one object a thread.
class CodedSum {
 public:
  // sum := 0
  static void begin(std::span<float> sum);
  // sum += Q(values), whole blocks from the first value on.
  Result<void> add(const WireCodec& codec, std::span<const float> values, std::span<float> sum);
  // The same of values that arrive as the codec's bytes; kCorruptPayload.
  Result<void> add_coded(const WireCodec& codec, std::span<const uint8_t> coded,
                         std::span<float> sum);
  // sum := Q(sum)
  Result<void> finish(const WireCodec& codec, std::span<float> sum);
  // The same, and the codec's bytes of it for others.
  static Result<void> finish(const WireCodec& codec, std::span<float> sum,
                             std::span<uint8_t> coded);

 private:
  Bytes bytes_;
  std::vector<float> decoded_;
};

}  // namespace thinwire::transport
