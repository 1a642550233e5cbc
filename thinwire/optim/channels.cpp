#include "thinwire/optim/channels.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "thinwire/base/simd.h"

namespace thinwire::optim {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kGrain = 16;
constexpr int64_t kColumns = 256;

// Lane i sums the elements whose index is i modulo 16; the lanes are added in order.
THINWIRE_CLONES float norm_of(const float* values, int64_t count) {
  float lanes[kLanes] = {};
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t at = 0; at < whole; at += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += values[at + lane] * values[at + lane];
    }
  }
  for (int64_t at = whole; at < count; ++at) lanes[at - whole] += values[at] * values[at];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return std::sqrt(sum);
}

THINWIRE_CLONES void add_squares(const float* __restrict values, int64_t count,
                                 float* __restrict sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += values[i] * values[i];
}

THINWIRE_CLONES void multiply_each(float* __restrict values, const float* __restrict factors,
                                   int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factors[i];
}

THINWIRE_CLONES void multiply_all(float* values, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) values[i] *= factor;
}

}  // namespace

void channel_norms(std::span<const float> matrix, int64_t columns, Channel channel,
                   std::span<float> norms, ThreadPool& threads) {
  const int64_t rows = static_cast<int64_t>(matrix.size()) / columns;
  const float* const values = matrix.data();
  assert(static_cast<int64_t>(norms.size()) == (channel == Channel::kRow ? rows : columns));
  if (channel == Channel::kRow) {
    threads.for_ranges(rows, kGrain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        norms[static_cast<size_t>(row)] = norm_of(values + row * columns, columns);
      }
    });
    return;
  }
  threads.for_ranges(columns, kColumns, [&](int64_t begin, int64_t end, int) {
    const std::span<float> mine =
        norms.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    std::ranges::fill(mine, 0.0f);
    for (int64_t row = 0; row < rows; ++row) {
      add_squares(values + row * columns + begin, end - begin, mine.data());
    }
    for (float& norm : mine) norm = std::sqrt(norm);
  });
}

void scale_channels(std::span<float> matrix, int64_t columns, Channel channel,
                    std::span<const float> factors, ThreadPool& threads) {
  const int64_t rows = static_cast<int64_t>(matrix.size()) / columns;
  threads.for_ranges(rows, kGrain, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      float* const values = matrix.data() + row * columns;
      if (channel == Channel::kRow) {
        multiply_all(values, columns, factors[static_cast<size_t>(row)]);
      } else {
        multiply_each(values, factors.data(), columns);
      }
    }
  });
}

void scaled_elements(std::span<const float> matrix, int64_t columns, Channel channel,
                     std::span<const float> factors, int64_t at, int64_t count, float* out) {
  const int64_t end = at + count;
  while (at < end) {
    const int64_t row = at / columns;
    const int64_t part = std::min(end, (row + 1) * columns) - at;
    std::copy_n(matrix.data() + at, part, out);
    if (channel == Channel::kRow) {
      multiply_all(out, part, factors[static_cast<size_t>(row)]);
    } else {
      multiply_each(out, factors.data() + at % columns, part);
    }
    at += part;
    out += part;
  }
}

float limit_growth(double norm, double growth, float& last) {
  double factor = 1;
  if (last > 0 && norm > growth * static_cast<double>(last)) {
    factor = growth * static_cast<double>(last) / norm;
  }
  last = static_cast<float>(norm * factor);
  return static_cast<float>(factor);
}

}  // namespace thinwire::optim
