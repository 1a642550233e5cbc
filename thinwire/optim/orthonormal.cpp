#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/base/scratch.h"
#include "thinwire/base/simd.h"
#include "thinwire/optim/products.h"
#include "thinwire/optim/subspace.h"

namespace thinwire::optim {
namespace {

using Lanes = float __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;
constexpr int64_t kTogether = 8;  // rows that are read together
constexpr int64_t kBlock = 32;    // rows that are projected together
constexpr int kPasses = 2;
constexpr float kRounding = 1e-5f;  // of a row's norm: what is left below it is rounding
// If this share of a row's norm is left, rounding errors are as small as another projection's.
constexpr float kEnough = 0.7f;

float sum_of(const float* lanes) {
  float sum = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}

template <int64_t kCount>
[[gnu::always_inline]] inline void products_of(const float* rows, const float* vector,
                                               int64_t length, float* out) {
  Lanes sums[kCount] = {};
  for (int64_t at = 0; at < length; at += kLanes) {
    Lanes value;
    std::memcpy(&value, vector + at, sizeof value);
    for (int64_t r = 0; r < kCount; ++r) {
      Lanes other;
      std::memcpy(&other, rows + r * length + at, sizeof other);
      sums[r] += other * value;
    }
  }
  // Copies, so that the sums stay in registers.
  for (int64_t r = 0; r < kCount; ++r) {
    const Lanes total = sums[r];
    float lanes[kLanes];
    std::memcpy(lanes, &total, sizeof lanes);
    out[r] = sum_of(lanes);
  }
}

// As many rows together as are left, up to kCount.
template <int64_t kCount>
[[gnu::always_inline]] inline void products_with_some(const float* rows, int64_t count,
                                                      const float* vector, int64_t length,
                                                      float* out) {
  int64_t row = 0;
  for (; row + kCount <= count; row += kCount) {
    products_of<kCount>(rows + row * length, vector, length, out + row);
  }
  if constexpr (kCount > 1) {
    products_with_some<kCount / 2>(rows + row * length, count - row, vector, length, out + row);
  }
}

// Lane i of a sum takes the elements whose index is i modulo 16; length is a multiple of 16.
THINWIRE_CLONES void products_with(const float* rows, int64_t count, const float* vector,
                                   int64_t length, float* out) {
  products_with_some<kTogether>(rows, count, vector, length, out);
}

template <int64_t kCount>
[[gnu::always_inline]] inline void subtract_of(const float* rows, const float* factors,
                                               int64_t length, float* vector) {
  for (int64_t at = 0; at < length; at += kLanes) {
    Lanes value;
    std::memcpy(&value, vector + at, sizeof value);
    for (int64_t r = 0; r < kCount; ++r) {
      Lanes other;
      std::memcpy(&other, rows + r * length + at, sizeof other);
      value -= factors[r] * other;
    }
    std::memcpy(vector + at, &value, sizeof value);
  }
}

template <int64_t kCount>
[[gnu::always_inline]] inline void subtract_some(const float* rows, int64_t count,
                                                 const float* factors, int64_t length,
                                                 float* vector) {
  int64_t row = 0;
  for (; row + kCount <= count; row += kCount) {
    subtract_of<kCount>(rows + row * length, factors + row, length, vector);
  }
  if constexpr (kCount > 1) {
    subtract_some<kCount / 2>(rows + row * length, count - row, factors + row, length, vector);
  }
}

// vector -= sum of factors[i] * row i, in the order of the rows.
THINWIRE_CLONES void subtract(const float* rows, int64_t count, const float* factors,
                              int64_t length, float* vector) {
  subtract_some<kTogether>(rows, count, factors, length, vector);
}

THINWIRE_CLONES void scale(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

THINWIRE_CLONES float largest_of(const float* values, int64_t count) {
  Lanes most = {};
  int64_t at = 0;
  for (; at + kLanes <= count; at += kLanes) {
    Lanes value;
    std::memcpy(&value, values + at, sizeof value);
    value = value < 0 ? -value : value;
    most = value > most ? value : most;
  }
  float lanes[kLanes];
  std::memcpy(lanes, &most, sizeof lanes);
  float largest = *std::ranges::max_element(lanes);
  for (; at < count; ++at) largest = std::fmax(largest, std::fabs(values[at]));
  return largest;
}

float norm_of(const float* vector, int64_t length) {
  float square = 0;
  products_with(vector, 1, vector, length, &square);
  return std::sqrt(square);
}

// Kept for the next call, since fresh memory costs more time than some of the work.
struct Memory {
  std::vector<float> values, columns, products, factors;
};

Memory& own_memory() {
  thread_local Memory memory;
  return memory;
}

// Rows, each padded with zeros to whole lanes. Those before the ones at work are orthonormal.
class Rows {
 public:
  Rows(std::span<const float> rows, int64_t count, int64_t length, uint64_t seed)
      : drawn_(static_cast<size_t>(length)),
        length_((length + kLanes - 1) / kLanes * kLanes),
        seed_(seed),
        values_(scratch(own_memory().values, count * length_)),
        columns_(scratch(own_memory().columns, length_ * kBlock)),
        products_(scratch(own_memory().products, count * kBlock)),
        factors_(scratch(own_memory().factors, count * kBlock)) {
    for (int64_t index = 0; index < count; ++index) {
      std::copy_n(rows.data() + index * length, length, row(index));
      std::fill(row(index) + length, row(index) + length_, 0.0f);
    }
  }

  const float* at(int64_t index) const { return values_.data() + index * length_; }

  void orthonormalise(int64_t begin, int64_t end, ThreadPool& threads) {
    std::vector<float> norms;
    for (int64_t index = begin; index < end; ++index) norms.push_back(normalise(index));
    float least = 0;
    for (int pass = 0; pass < kPasses && least < kEnough; ++pass) {
      if (begin > 0) project(begin, end, threads);
      least = 1;
      for (int64_t index = begin; index < end; ++index) {
        float& norm = norms[static_cast<size_t>(index - begin)];
        const float left = finish(index, begin, std::exchange(norm, 1.0f), 1);
        if (left == 0 || (pass > 0 && left < kEnough && !finish_alone(index))) {
          replace(index);
        } else {
          least = std::min(least, left);
        }
      }
    }
  }

 private:
  float* row(int64_t index) { return values_.data() + index * length_; }

  // Subtracts from the rows [begin, end) what lies in the span of the rows before them.
  void project(int64_t begin, int64_t end, ThreadPool& threads) {
    const int64_t count = end - begin;
    transpose(row(begin), count, length_, columns_.data(), threads);
    multiply({values_.data(), columns_.data(), nullptr, products_.data(), length_, count}, begin,
             threads);
    transpose(products_.data(), begin, count, factors_.data(), threads);
    multiply({factors_.data(), values_.data(), row(begin), row(begin), begin, length_, -1, 1},
             count, threads);
  }

  // Brings the row's largest value to 1. Returns its norm then, or 0.
  float normalise(int64_t index) {
    if (optim::normalise({row(index), static_cast<size_t>(length_)}) == 0) return 0;
    return norm_of(row(index), length_);
  }

  // Makes the row, whose norm was `before` at first, orthogonal to those from `begin` on, and its
  // norm 1. Returns how much of the norm was left: 0 if it was no more than rounding.
  float finish(int64_t index, int64_t begin, float before, int passes) {
    float* const vector = row(index);
    for (int pass = 0; pass < passes; ++pass) {
      products_with(row(begin), index - begin, vector, length_, factors_.data());
      subtract(row(begin), index - begin, factors_.data(), length_, vector);
    }
    const float after = norm_of(vector, length_);
    if (!(after > kRounding * before)) return 0;
    scale(vector, length_, 1 / after);
    return after / before;
  }

  // Makes the row orthogonal to all before it, however much they have in common.
  bool finish_alone(int64_t index) {
    const float before = normalise(index);
    return before > 0 && finish(index, 0, before, kPasses) > 0;
  }

  void replace(int64_t index) {
    const uint64_t seed = derive_seed(seed_, static_cast<uint64_t>(index));
    uint64_t draw = 0;
    do {
      draw_signs({row(index), drawn_}, derive_seed(seed, draw++));
    } while (!finish_alone(index));
  }

  size_t drawn_;    // values of a row
  int64_t length_;  // with its zeros
  uint64_t seed_;
  std::span<float> values_, columns_, products_, factors_;
};

}  // namespace

float normalise(std::span<float> values) {
  const auto count = static_cast<int64_t>(values.size());
  const float largest = largest_of(values.data(), count);
  if (largest > 0) scale(values.data(), count, 1 / largest);
  return largest;
}

void draw_signs(std::span<float> values, uint64_t seed) {
  uint64_t bits = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 64 == 0) bits = mix_bits(seed + i / 64);
    values[i] = (bits >> i % 64 & 1) != 0 ? 1.0f : -1.0f;
  }
}

void orthonormalise(std::span<float> rows, int64_t count, int64_t length, uint64_t seed,
                    ThreadPool& threads) {
  assert(count <= length && static_cast<int64_t>(rows.size()) == count * length);
  Rows work(rows, count, length, seed);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    work.orthonormalise(begin, std::min(begin + kBlock, count), threads);
  }
  for (int64_t index = 0; index < count; ++index) {
    std::copy_n(work.at(index), length, rows.data() + index * length);
  }
}

}  // namespace thinwire::optim
