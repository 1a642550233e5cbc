#include "thinwire/train/params_digest.h"

#include <algorithm>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/offload.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::train {
namespace {

constexpr int64_t kValue = 4;  // positions are counted in fp32 values

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

}  // namespace thinwire::train
