// The wire codecs on one core: bytes of fp32 values encoded, and decoded, per second, beside a copy
// of the same values. Arguments: format (by WireType), KiB of values at a time; the small size
// stays in the cache, the large one streams from memory.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"
#include "thinwire/codec/wire.h"

namespace thinwire::codec {
namespace {

constexpr int64_t kCached = 128;
constexpr int64_t kStreamed = 256 << 10;

std::vector<float> normal_values(int64_t kib) {
  Rng rng(1, 1);
  std::vector<float> values(static_cast<size_t>(kib) * 256);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

void count_bytes(benchmark::State& state, const std::vector<float>& values) {
  const auto bytes = static_cast<int64_t>(values.size() * sizeof(float));
  state.SetBytesProcessed(state.iterations() * bytes);
}

void bm_copy(benchmark::State& state) {
  const std::vector<float> values = normal_values(state.range(0));
  std::vector<float> copy(values.size());
  for (auto _ : state) {
    std::memcpy(copy.data(), values.data(), values.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  count_bytes(state, values);
}

void bm_encode(benchmark::State& state) {
  const WireCodec& codec = wire_codec(static_cast<WireType>(state.range(0)));
  const std::vector<float> values = normal_values(state.range(1));
  Bytes bytes(wire_bytes(codec.type, values.size()));
  for (auto _ : state) {
    codec.encode(values, bytes);
    benchmark::ClobberMemory();
  }
  count_bytes(state, values);
  state.SetLabel(std::string(wire_name(codec.type)));
}

void bm_decode(benchmark::State& state) {
  const WireCodec& codec = wire_codec(static_cast<WireType>(state.range(0)));
  std::vector<float> values = normal_values(state.range(1));
  Bytes bytes(wire_bytes(codec.type, values.size()));
  codec.encode(values, bytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(codec.decode(bytes, values).has_value());
    benchmark::ClobberMemory();
  }
  count_bytes(state, values);
  state.SetLabel(std::string(wire_name(codec.type)));
}

BENCHMARK(bm_copy)->Arg(kCached)->Arg(kStreamed);
BENCHMARK(bm_encode)->ArgsProduct({{1, 2, 3, 4}, {kCached, kStreamed}});
BENCHMARK(bm_decode)->ArgsProduct({{1, 2, 3, 4}, {kCached, kStreamed}});

}  // namespace
}  // namespace thinwire::codec
