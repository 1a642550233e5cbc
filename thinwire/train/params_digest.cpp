#include "thinwire/train/params_digest.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/half.h"
#include "thinwire/base/offload.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::train {
namespace {

constexpr int64_t kValue = 4;  // positions are counted in fp32 values

NamedValues view(const tensor::Arena& weights) {
  if (weights.format() == WeightFormat::kF32) return {"", weights.all()};
  return {"", DType::kBf16, weights.bytes()};
}

template <typename T>
std::span<const T> values_in(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

bool all_finite(std::span<const Bf16> values) {
  constexpr uint16_t kInfinity = 0x7f80;
  return std::ranges::none_of(values,
                              [](Bf16 value) { return (value.bits & kInfinity) == kInfinity; });
}

}  // namespace

uint64_t bytes_digest(std::span<const uint8_t> bytes, ThreadPool& threads) {
  const auto count = static_cast<int64_t>(bytes.size());
  std::vector<Digest> parts(static_cast<size_t>(threads.size()));
  threads.for_ranges(count, kDigestChunk, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t at = begin; at < end; at += kDigestChunk) {
      const auto chunk = bytes.subspan(static_cast<size_t>(at),
                                       static_cast<size_t>(std::min(kDigestChunk, end - at)));
      parts[static_cast<size_t>(thread)].add(static_cast<uint64_t>(at / kValue), chunk);
      release_offloaded(chunk.data(), chunk.size());
    }
  });
  Digest whole;
  for (const Digest& part : parts) whole.add(part);
  return whole.value();
}

uint64_t ArenaDigest::of(const tensor::Arena& values, ThreadPool& threads) {
  const tensor::DevicePlace* const device = values.device();
  if (device == nullptr) return bytes_digest(values.bytes(), threads);
  const int64_t total = values.layout().total();
  const int64_t chunks = total * kValue / kDigestChunk;
  if (!on_device_) {
    const auto count = static_cast<size_t>(chunks);
    const size_t accumulators = count * tensor::HashChunks::kLanes;
    on_device_.emplace(OnDevice{{*device, accumulators}, {*device, count}});
  }
  const tensor::HashChunks kernel = {
      chunks, hash_secret(), reinterpret_cast<const uint64_t*>(values.device_values()),
      on_device_->accumulators.device(), on_device_->hashes.device()};
  tensor::launch(*device, threads, kernel, kernel.rows());
  on_device_->hashes.download();
  // The rest, shorter than a chunk, is hashed here.
  const int64_t begin = chunks * kDigestChunk / kValue;
  Digest digest;
  if (begin < total) digest.add(begin, as_bytes(values.range(begin, total - begin)));
  uint64_t sum = digest.value();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    sum += on_device_->hashes.host()[static_cast<size_t>(chunk)];
  }
  return sum;
}

bool all_finite(const NamedValues& state, ThreadPool& threads) {
  constexpr size_t kPiece = size_t{1} << 24;  // bytes
  if (state.dtype != DType::kF32 && state.dtype != DType::kBf16) return true;
  const std::span<const uint8_t> bytes =
      state.dtype == DType::kF32 ? as_bytes(state.values) : state.bytes;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    const bool finite = state.dtype == DType::kF32
                            ? std::isfinite(optim::global_norm(values_in<float>(piece), threads))
                            : all_finite(values_in<Bf16>(piece));
    if (!finite) return false;
    release_offloaded(piece.data(), piece.size());
  }
  return true;
}

bool all_finite(const tensor::Arena& weights, ThreadPool& threads) {
  return all_finite(view(weights), threads);
}

}  // namespace thinwire::train
