#include "thinwire/optim/orthonormal.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/base/simd.h"

namespace thinwire::optim {
namespace {

using Lanes = float __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;
constexpr int64_t kTogether = 8;  // rows that are read together
constexpr int kPasses = 2;
constexpr float kRounding = 1e-5f;  // of a row's norm: what is left below it is rounding

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

// Lane i of a sum takes the elements whose index is i modulo 16; length is a multiple of 16.
THINWIRE_CLONES void products_with(const float* rows, int64_t count, const float* vector,
                                   int64_t length, float* out) {
  int64_t row = 0;
  for (; row + kTogether <= count; row += kTogether) {
    products_of<kTogether>(rows + row * length, vector, length, out + row);
  }
  for (; row < count; ++row) products_of<1>(rows + row * length, vector, length, out + row);
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

// vector -= sum of factors[i] * row i, in the order of the rows.
THINWIRE_CLONES void subtract(const float* rows, int64_t count, const float* factors,
                              int64_t length, float* vector) {
  int64_t row = 0;
  for (; row + kTogether <= count; row += kTogether) {
    subtract_of<kTogether>(rows + row * length, factors + row, length, vector);
  }
  for (; row < count; ++row) subtract_of<1>(rows + row * length, factors + row, length, vector);
}

THINWIRE_CLONES void scale(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

float largest(const float* values, int64_t count) {
  float most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::fmax(most, std::fabs(values[i]));
  return most;
}

float norm_of(const float* vector, int64_t length) {
  float square = 0;
  products_with(vector, 1, vector, length, &square);
  return std::sqrt(square);
}

// Rows one after the other, each padded with zeros to whole lanes.
class Rows {
 public:
  Rows(int64_t count, int64_t length)
      : length_((length + kLanes - 1) / kLanes * kLanes),
        values_(static_cast<size_t>(count * length_)),
        factors_(static_cast<size_t>(count)) {}

  float* row(int64_t index) { return values_.data() + index * length_; }

  // Whether enough of the row was left.
  bool orthonormalise(int64_t index) {
    float* const vector = row(index);
    const float most = largest(vector, length_);
    if (!(most > 0)) return false;
    scale(vector, length_, 1 / most);
    const float before = norm_of(vector, length_);
    for (int pass = 0; pass < kPasses; ++pass) {
      products_with(values_.data(), index, vector, length_, factors_.data());
      subtract(values_.data(), index, factors_.data(), length_, vector);
    }
    const float after = norm_of(vector, length_);
    if (!(after > kRounding * before)) return false;
    scale(vector, length_, 1 / after);
    return true;
  }

 private:
  int64_t length_;
  std::vector<float> values_;
  std::vector<float> factors_;
};

}  // namespace

void draw_signs(std::span<float> values, uint64_t seed) {
  uint64_t bits = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 64 == 0) bits = mix_bits(seed + i / 64);
    values[i] = (bits >> i % 64 & 1) != 0 ? 1.0f : -1.0f;
  }
}

void orthonormalise(std::span<float> rows, int64_t count, int64_t length, uint64_t seed) {
  assert(count <= length && static_cast<int64_t>(rows.size()) == count * length);
  Rows work(count, length);
  const auto bytes = static_cast<size_t>(length) * sizeof(float);
  for (int64_t index = 0; index < count; ++index) {
    float* const row = rows.data() + index * length;
    std::memcpy(work.row(index), row, bytes);
    for (uint64_t draw = 0; !work.orthonormalise(index); ++draw) {
      draw_signs({work.row(index), static_cast<size_t>(length)},
                 derive_seed(derive_seed(seed, static_cast<uint64_t>(index)), draw));
    }
    std::memcpy(row, work.row(index), bytes);
  }
}

}  // namespace thinwire::optim
