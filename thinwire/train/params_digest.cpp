#include "thinwire/train/params_digest.h"

#include <algorithm>
#include <vector>

#include "thinwire/base/digest.h"
#include "thinwire/base/offload.h"

namespace thinwire::train {

uint64_t bytes_digest(std::span<const uint8_t> bytes, ThreadPool& threads) {
  constexpr int64_t kWord = 4;  // positions are counted in fp32 values
  constexpr int64_t kChunk = 16384 * kWord;
  const auto count = static_cast<int64_t>(bytes.size());
  std::vector<Digest> parts(static_cast<size_t>(threads.size()));
  threads.for_ranges(count, kChunk, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t at = begin; at < end; at += kChunk) {
      const auto chunk =
          bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(kChunk, end - at)));
      parts[static_cast<size_t>(thread)].add(static_cast<uint64_t>(at / kWord), chunk);
      release_offloaded(chunk.data(), chunk.size());
    }
  });
  Digest whole;
  for (const Digest& part : parts) whole.add(part);
  return whole.value();
}

}  // namespace thinwire::train
