// The passes of a step over whole arenas, written once for CPU and GPU like those of
// portable_kernels.h. Every operation is rounded by itself and sums are formed in the order in
// which the host's code forms them, so the results have the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/digest.h"
#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

// AdamW's numbers for one tensor of a step (optimizers/adamw/adamw.h).
struct AdamwRule {
  float beta1, keep1;  // keep = 1 - beta
  float beta2, keep2;
  float step_size;  // lr / (1 - beta1^t)
  float root2;      // sqrt(1 - beta2^t)
  float eps;
  float shrink;  // 1 - lr * weight decay
  float grad_scale;
};

THINWIRE_DEVICE inline void adamw_step(const AdamwRule& c, float g, float& p, float& m, float& v) {
  const float grad = g * c.grad_scale;
  m = c.beta1 * m + c.keep1 * grad;
  v = c.beta2 * v + c.keep2 * (grad * grad);
  const float denominator = std::sqrt(v) / c.root2 + c.eps;
  p = p * c.shrink - c.step_size * (m / denominator);
}

// Muon's momentum of one matrix, and what it orthogonalises (optimizers/muon/muon.cpp).
struct MuonRule {
  float momentum;
  float grad_scale;
};

THINWIRE_DEVICE inline void look_ahead(const MuonRule& c, float gradient, float& momentum,
                                       float& direction) {
  const float g = c.grad_scale * gradient;
  momentum = c.momentum * momentum + g;
  direction = g + c.momentum * momentum;
}

// momentum = mu momentum + g; direction = g + mu momentum, for `count` values, kRowValues of them
// for each row.
struct LookAhead {
  static constexpr int64_t kRowValues = 4096;
  int64_t rows() const { return (count + kRowValues - 1) / kRowValues; }

  MuonRule rule;
  int64_t count;
  const float* gradient;
  float* momentum;
  float* direction;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t begin = row * kRowValues;
    const int64_t end = begin + kRowValues < count ? begin + kRowValues : count;
    for (int64_t i = begin + lanes.index(); i < end; i += lanes.count()) {
      look_ahead(rule, gradient[i], momentum[i], direction[i]);
    }
  }
};

// p = p shrink - rate direction, likewise.
struct StepAlong {
  static constexpr int64_t kRowValues = 4096;
  int64_t rows() const { return (count + kRowValues - 1) / kRowValues; }

  int64_t count;
  float shrink;
  float rate;
  const float* direction;
  float* params;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t begin = row * kRowValues;
    const int64_t end = begin + kRowValues < count ? begin + kRowValues : count;
    for (int64_t i = begin + lanes.index(); i < end; i += lanes.count()) {
      params[i] = params[i] * shrink - rate * direction[i];
    }
  }
};

// A step of AdamW on `count` parameters, kRowValues of them for each row.
struct AdamwStep {
  static constexpr int64_t kRowValues = 4096;
  int64_t rows() const { return (count + kRowValues - 1) / kRowValues; }

  AdamwRule rule;
  int64_t count;
  const float* gradient;
  float* params;
  float* m;
  float* v;

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t begin = row * kRowValues;
    const int64_t end = begin + kRowValues < count ? begin + kRowValues : count;
    int64_t i = begin + lanes.index();
    for (; i + (kTogether - 1) * lanes.count() < end; i += kTogether * lanes.count()) {
      together(i, lanes.count());
    }
    for (; i < end; i += lanes.count()) adamw_step(rule, gradient[i], params[i], m[i], v[i]);
  }

 private:
  static constexpr int kTogether = 4;  // values that a thread loads before it stores any

  THINWIRE_DEVICE void together(int64_t first, int64_t stride) const {
    float g[kTogether], p[kTogether], mean[kTogether], square[kTogether];
    THINWIRE_DEVICE_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      g[k] = gradient[first + k * stride];
      p[k] = params[first + k * stride];
      mean[k] = m[first + k * stride];
      square[k] = v[first + k * stride];
    }
    THINWIRE_DEVICE_UNROLL
    for (int k = 0; k < kTogether; ++k) {
      adamw_step(rule, g[k], p[k], mean[k], square[k]);
      params[first + k * stride] = p[k];
      m[first + k * stride] = mean[k];
      v[first + k * stride] = square[k];
    }
  }
};

// The sum of the squares of each block of kNormBlock of `count` values, as optim::global_norm forms
// it; kBlocks of them for each row.
struct SquaresOfBlocks {
  static constexpr int64_t kBlocks = 16;
  int64_t blocks() const { return (count + kNormBlock - 1) / kNormBlock; }
  int64_t rows() const { return (blocks() + kBlocks - 1) / kBlocks; }

  int64_t count;
  const float* values;
  double* lane_sums = nullptr;  // [blocks, kNormLanes]
  double* sums = nullptr;       // [blocks]

  template <typename Lanes>
  THINWIRE_DEVICE void operator()(Lanes& lanes, int64_t row) const {
    const int64_t first = row * kBlocks;
    for (int64_t i = lanes.index(); i < kBlocks * kNormLanes; i += lanes.count()) {
      const int64_t begin = (first + i / kNormLanes) * kNormBlock;
      const int64_t end = begin + kNormBlock < count ? begin + kNormBlock : count;
      if (begin >= count) continue;
      double sum = 0;
      for (int64_t at = begin + i % kNormLanes; at < end; at += kNormLanes) {
        const double value = values[at];
        sum += value * value;
      }
      lane_sums[first * kNormLanes + i] = sum;
    }
    lanes.barrier();
    for (int64_t block = first + lanes.index(); block < first + kBlocks; block += lanes.count()) {
      if (block * kNormBlock >= count) continue;
      double sum = 0;
      for (int64_t lane = 0; lane < kNormLanes; ++lane) {
        sum += lane_sums[block * kNormLanes + lane];
      }
      sums[block] = sum;
    }
  }
};

// The hash of base/digest.h (XXH3, 64 bits, of long inputs: https://github.com/Cyan4973/xxHash,
// doc/xxhash_spec.md) over chunks of an arena, written once for CPU and GPU like the passes of
// portable_kernels.h.

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
