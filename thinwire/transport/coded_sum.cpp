#include "thinwire/transport/coded_sum.h"

#include <algorithm>

#include "thinwire/base/simd.h"

namespace thinwire::transport {

// Elementwise, so any width gives the same bits.
THINWIRE_CLONES void add_values(std::span<const float> values, std::span<float> sum) {
  const float* __restrict from = values.data();
  float* __restrict to = sum.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

void CodedSum::begin(std::span<float> sum) { std::ranges::fill(sum, 0.0f); }

Result<void> CodedSum::add(const WireCodec& codec, std::span<const float> values,
                           std::span<float> sum) {
  if (codec.type == WireType::kF32) {
    add_values(values, sum);
    return {};
  }
  bytes_.resize(wire_bytes(codec.type, values.size()));
  decoded_.resize(values.size());
  codec.encode(values, bytes_);
  if (auto done = codec.decode(bytes_, decoded_); !done) return done;
  add_values(decoded_, sum);
  return {};
}

Result<void> CodedSum::finish(const WireCodec& codec, std::span<float> sum) {
  if (codec.type == WireType::kF32) return {};
  bytes_.resize(wire_bytes(codec.type, sum.size()));
  codec.encode(sum, bytes_);
  return codec.decode(bytes_, sum);
}

}  // namespace thinwire::transport
