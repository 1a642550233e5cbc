// The arithmetic of a reduce: contributions as the codec passes them on, summed in fp32 from 0 in
// member order, and the sum as the codec passes it on.
#pragma once

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
  // sum := Q(sum)
  Result<void> finish(const WireCodec& codec, std::span<float> sum);

 private:
  Bytes bytes_;
  std::vector<float> decoded_;
};

// sum += values
void add_values(std::span<const float> values, std::span<float> sum);

}  // namespace thinwire::transport
