// The hash of base/digest.h (XXH3, 64 bits, of long inputs: https://github.com/Cyan4973/xxHash,
// doc/xxhash_spec.md) over chunks of an arena, written once for CPU and GPU like the passes of
// portable_kernels.h.
#pragma once

#include <cstdint>

#include "thinwire/base/digest.h"
#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

// The hashes of chunks of kDigestChunk bytes, each seeded by its position in fp32 values;
// kRowChunks of them for each row.
struct HashChunks {
  static constexpr int64_t kRowChunks = 32;
  static constexpr int64_t kLanes = 8;  // accumulators of a hash
  static constexpr int64_t kChunkWords = kDigestChunk / 8;
  static constexpr int kStripes = 16;  // of kLanes words, of a block
  static constexpr int64_t kBlocks = kChunkWords / (kStripes * kLanes);

  int64_t rows() const { return (chunks + kRowChunks - 1) / kRowChunks; }

  int64_t chunks;
  HashSecret secret;
  const uint64_t* words;   // [chunks, kChunkWords]
  uint64_t* accumulators;  // [chunks, kLanes]
  uint64_t* hashes;        // [chunks]

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t first = row * kRowChunks;
    const int64_t end = first + kRowChunks < chunks ? first + kRowChunks : chunks;
    const int64_t count = (end - first) * kLanes;
    for (int64_t i = lanes.index(); i < count; i += lanes.count()) {
      accumulators[first * kLanes + i] =
          accumulate(first + i / kLanes, static_cast<int>(i % kLanes));
    }
    lanes.barrier();
    for (int64_t chunk = first + lanes.index(); chunk < end; chunk += lanes.count()) {
      hashes[chunk] = merge(chunk);
    }
  }

 private:
  static constexpr uint64_t kShortPrime1 = 0x9E3779B1, kShortPrime2 = 0x85EBCA77,
                            kShortPrime3 = 0xC2B2AE3D;
  static constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                            kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                            kPrime5 = 0x27D4EB2F165667C5, kMix = 0x165667919E3779F9;

  // The secret that follows from the chunk's seed: 8 bytes from byte `at` on.
  THINWIRE_DEVICE uint64_t word(uint64_t seed, int index) const {
    return index % 2 == 0 ? secret.words[index] + seed : secret.words[index] - seed;
  }
  THINWIRE_DEVICE uint64_t key(uint64_t seed, int at) const {
    const int shift = at % 8 * 8;
    const uint64_t low = word(seed, at / 8);
    return shift == 0 ? low : low >> shift | word(seed, at / 8 + 1) << (64 - shift);
  }
  THINWIRE_DEVICE static uint64_t seed_of(int64_t chunk) {
    return static_cast<uint64_t>(chunk) * (kDigestChunk / 4);
  }

  THINWIRE_DEVICE static uint64_t initial(int lane) {
    const uint64_t values[kLanes] = {kShortPrime3, kPrime1,      kPrime2, kPrime3,
                                     kPrime4,      kShortPrime2, kPrime5, kShortPrime1};
    return values[lane];
  }

  // Accumulator `lane` after all stripes. The last one has a key of its own, at byte 121.
  THINWIRE_DEVICE uint64_t accumulate(int64_t chunk, int lane) const {
    const uint64_t seed = seed_of(chunk);
    uint64_t keys[kStripes];
    for (int stripe = 0; stripe < kStripes; ++stripe) keys[stripe] = word(seed, stripe + lane);
    const uint64_t scrambler = word(seed, kStripes + lane);
    const uint64_t* from = words + chunk * kChunkWords;
    uint64_t sum = initial(lane);
    for (int64_t block = 0; block < kBlocks; ++block, from += kStripes * kLanes) {
      const bool last = block == kBlocks - 1;
      if (last) keys[kStripes - 1] = key(seed, 121 + 8 * lane);
      for (int stripe = 0; stripe < kStripes; ++stripe) {
        const uint64_t value = from[stripe * kLanes + lane];
        const uint64_t keyed = value ^ keys[stripe];
        sum += from[stripe * kLanes + (lane ^ 1)] + (keyed & 0xffffffff) * (keyed >> 32);
      }
      if (!last) sum = (sum ^ sum >> 47 ^ scrambler) * kShortPrime1;
    }
    return sum;
  }

  THINWIRE_DEVICE uint64_t merge(int64_t chunk) const {
    const uint64_t seed = seed_of(chunk);
    const uint64_t* const lanes = accumulators + chunk * kLanes;
    uint64_t hash = kDigestChunk * kPrime1;
    for (int lane = 0; lane < kLanes; lane += 2) {
      const uint64_t a = lanes[lane] ^ key(seed, 11 + 8 * lane);
      const uint64_t b = lanes[lane + 1] ^ key(seed, 19 + 8 * lane);
      const auto product = static_cast<unsigned __int128>(a) * b;
      hash += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
    }
    hash = (hash ^ hash >> 37) * kMix;
    return hash ^ hash >> 32;
  }
};

}  // namespace thinwire::tensor
