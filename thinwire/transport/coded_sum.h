// The arithmetic of an all_reduce: contributions, encoded and decoded by the codec, are summed in
// fp32 from 0 in member order, and the sum is encoded and decoded as well. Q is this round trip
// through the codec.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/wire.h"

namespace thinwire::transport {

// Owns memory for the values between encoding and decoding; one object per thread.
class CodedSum {
 public:
  // sum := 0
  static void begin(std::span<float> sum);
  // sum += Q(values), whole blocks from the first value on.
  Result<void> add(const WireCodec& codec, std::span<const float> values, std::span<float> sum);
  // The same for values that arrive as the codec's bytes; kCorruptPayload if it refuses them.
  Result<void> add_coded(const WireCodec& codec, std::span<const uint8_t> coded,
                         std::span<float> sum);
  // sum := Q(sum)
  Result<void> finish(const WireCodec& codec, std::span<float> sum);
  // The same, also returning the codec's bytes for others.
  static Result<void> finish(const WireCodec& codec, std::span<float> sum,
                             std::span<uint8_t> coded);

 private:
  Bytes bytes_;
  std::vector<float> decoded_;
};

}  // namespace thinwire::transport
