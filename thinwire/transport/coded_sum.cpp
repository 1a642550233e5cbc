#include "thinwire/transport/coded_sum.h"

#include <algorithm>

#include "thinwire/base/simd.h"

namespace thinwire::transport {
namespace {

// Elementwise, so any width gives the same bits.
THINWIRE_CLONES void add_values(std::span<const float> values, std::span<float> sum) {
  const float* __restrict from = values.data();
  float* __restrict to = sum.data();
  const size_t count = sum.size();
  for (size_t i = 0; i < count; ++i) to[i] += from[i];
}

}  // namespace

void CodedSum::begin(std::span<float> sum) { std::ranges::fill(sum, 0.0f); }

Result<void> CodedSum::add(const WireCodec& codec, std::span<const float> values,
                           std::span<float> sum) {
  if (codec.type == WireType::kF32) {
    add_values(values, sum);
    return {};
  }
  bytes_.resize(wire_bytes(codec.type, values.size()));
  codec.encode(values, bytes_);
  return add_coded(codec, bytes_, sum);
}

Result<void> CodedSum::add_coded(const WireCodec& codec, std::span<const uint8_t> coded,
                                 std::span<float> sum) {
  decoded_.resize(sum.size());
  if (auto done = codec.decode(coded, decoded_); !done) return done;
  add_values(decoded_, sum);
  return {};
}

Result<void> CodedSum::finish(const WireCodec& codec, std::span<float> sum) {
  if (codec.type == WireType::kF32) return {};
  bytes_.resize(wire_bytes(codec.type, sum.size()));
  return finish(codec, sum, bytes_);
}

Result<void> CodedSum::finish(const WireCodec& codec, std::span<float> sum,
                              std::span<uint8_t> coded) {
  codec.encode(sum, coded);
  return codec.decode(coded, sum);
}

}  // namespace thinwire::transport
