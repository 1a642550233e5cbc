#include "thinwire/optimizers/natural_galore/natural_gradient.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "thinwire/base/simd.h"

namespace thinwire::optim {
namespace {

constexpr int64_t kBlock = 2048;
constexpr int64_t kLanes = 8;
constexpr int64_t kTogether = 5;  // gradients; a history's default is a multiple

using Floats = float __attribute__((vector_size(32)));
using Doubles = double __attribute__((vector_size(64)));

// The products of `a` with kCount gradients, `stride` apart from `others` on. Lane i sums the
// products of elements whose index is i modulo 8; the lanes are added in order. Several gradients
// together keep the adders busy and read `a` once.
template <int64_t kCount>
[[gnu::always_inline]] inline void products_of(const float* a, const float* others, int64_t stride,
                                               int64_t count, double* out) {
  Doubles sums[kCount] = {};
  const int64_t whole = count / kLanes * kLanes;
  for (int64_t at = 0; at < whole; at += kLanes) {
    Floats value;
    std::memcpy(&value, a + at, sizeof value);
    const Doubles wide = __builtin_convertvector(value, Doubles);
    for (int64_t k = 0; k < kCount; ++k) {
      Floats other;
      std::memcpy(&other, others + k * stride + at, sizeof other);
      sums[k] += wide * __builtin_convertvector(other, Doubles);
    }
  }
  for (int64_t k = 0; k < kCount; ++k) {
    double lanes[kLanes];
    std::memcpy(lanes, &sums[k], sizeof lanes);
    for (int64_t at = whole; at < count; ++at) {
      lanes[at - whole] +=
          static_cast<double>(a[at]) * static_cast<double>(others[k * stride + at]);
    }
    out[k] = 0;
    for (const double lane : lanes) out[k] += lane;
  }
}

THINWIRE_CLONES void products_with(const float* a, const float* others, int64_t stride,
                                   int64_t size, int64_t count, double* out) {
  int64_t other = 0;
  for (; other + kTogether <= size; other += kTogether) {
    products_of<kTogether>(a, others + other * stride, stride, count, out + other);
  }
  for (; other < size; ++other) {
    products_of<1>(a, others + other * stride, stride, count, out + other);
  }
}

// sums += factors[k] * values[k], one after the other, of kCount gradients.
template <int64_t kCount>
[[gnu::always_inline]] inline void add_block(double* __restrict sums,
                                             const float* __restrict values, int64_t stride,
                                             int64_t count, const double* __restrict factors) {
  for (int64_t i = 0; i < count; ++i) {
    double sum = sums[i];
    for (int64_t k = 0; k < kCount; ++k) {
      sum += factors[k] * static_cast<double>(values[k * stride + i]);
    }
    sums[i] = sum;
  }
}

THINWIRE_CLONES void add_scaled(double* sums, const float* values, int64_t stride, int64_t size,
                                int64_t count, const double* factors) {
  int64_t k = 0;
  for (; k + kTogether <= size; k += kTogether) {
    add_block<kTogether>(sums, values + k * stride, stride, count, factors + k);
  }
  for (; k < size; ++k) add_block<1>(sums, values + k * stride, stride, count, factors + k);
}

}  // namespace

GradientHistory::GradientHistory(std::span<float> gradients, std::span<float> products,
                                 int64_t size)
    : gradients_(gradients),
      products_(products),
      size_(size),
      length_(static_cast<int64_t>(gradients.size()) / size) {
  assert(static_cast<int64_t>(products.size()) == 2 * size * size);
}

std::span<float> GradientHistory::at(int64_t place) {
  return gradients_.subspan(static_cast<size_t>(place * length_), static_cast<size_t>(length_));
}

double GradientHistory::product(int64_t i, int64_t j) const {
  const auto index = static_cast<size_t>(i * size_ + j);
  return static_cast<double>(products_[index]) +
         static_cast<double>(products_[index + products_.size() / 2]);
}

void GradientHistory::set_product(int64_t i, int64_t j, double value) {
  const auto high = static_cast<float>(value);
  const auto low = static_cast<float>(value - static_cast<double>(high));
  for (const int64_t entry : {i * size_ + j, j * size_ + i}) {
    products_[static_cast<size_t>(entry)] = high;
    products_[static_cast<size_t>(entry) + products_.size() / 2] = low;
  }
}

void GradientHistory::put(int64_t place, std::span<const float> gradient, ThreadPool& threads) {
  std::ranges::copy(gradient, at(place).begin());
  const int64_t blocks = (length_ + kBlock - 1) / kBlock;
  std::vector<double> parts(static_cast<size_t>(blocks * size_));
  threads.for_each(blocks, [&](int64_t block) {
    const int64_t begin = block * kBlock;
    const int64_t count = std::min(kBlock, length_ - begin);
    products_with(gradient.data() + begin, gradients_.data() + begin, length_, size_, count,
                  parts.data() + block * size_);
  });
  for (int64_t other = 0; other < size_; ++other) {
    double sum = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      sum += parts[static_cast<size_t>(block * size_ + other)];
    }
    set_product(place, other, sum);
  }
}

void GradientHistory::renew_products(ThreadPool& threads) {
  for (int64_t place = 0; place < size_; ++place) {
    const std::vector<float> same(at(place).begin(), at(place).end());
    put(place, same, threads);
  }
}

void GradientHistory::clear() {
  std::ranges::fill(gradients_, 0.0f);
  std::ranges::fill(products_, 0.0f);
}

double GradientHistory::mean_square() const {
  double sum = 0;
  int64_t there = 0;
  for (int64_t i = 0; i < size_; ++i) {
    const double square = product(i, i);
    sum += square;
    there += square > 0 ? 1 : 0;
  }
  return there == 0 ? 0 : sum / static_cast<double>(there);
}

void GradientHistory::natural_gradient(int64_t place, double damping, std::span<float> out,
                                       ThreadPool& threads) const {
  std::vector<double> matrix(static_cast<size_t>(size_ * size_));
  for (int64_t i = 0; i < size_; ++i) {
    for (int64_t j = 0; j < size_; ++j) matrix[static_cast<size_t>(i * size_ + j)] = product(i, j);
  }
  const std::vector<double> factors = solve_damped(std::move(matrix), size_, damping, place);
  threads.for_ranges(length_, kBlock, [&](int64_t begin, int64_t end, int) {
    double sums[kBlock];
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      std::fill_n(sums, count, 0.0);
      add_scaled(sums, gradients_.data() + at, length_, size_, count, factors.data());
      for (int64_t i = 0; i < count; ++i) {
        out[static_cast<size_t>(at + i)] = static_cast<float>(sums[i]);
      }
    }
  });
}

std::vector<double> solve_damped(std::vector<double> matrix, int64_t size, double damping,
                                 int64_t place) {
  const auto at = [&](int64_t i, int64_t j) -> double& {
    return matrix[static_cast<size_t>(i * size + j)];
  };
  // The lower triangle becomes L of L L^T.
  for (int64_t j = 0; j < size; ++j) {
    for (int64_t i = j; i < size; ++i) {
      double sum = at(i, j) + (i == j ? damping : 0);
      for (int64_t k = 0; k < j; ++k) sum -= at(i, k) * at(j, k);
      at(i, j) = i == j ? std::sqrt(std::max(sum, damping)) : sum / at(j, j);
    }
  }
  std::vector<double> x(static_cast<size_t>(size));
  x[static_cast<size_t>(place)] = 1;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t k = 0; k < i; ++k) {
      x[static_cast<size_t>(i)] -= at(i, k) * x[static_cast<size_t>(k)];
    }
    x[static_cast<size_t>(i)] /= at(i, i);
  }
  for (int64_t i = size; i-- > 0;) {
    for (int64_t k = i + 1; k < size; ++k) {
      x[static_cast<size_t>(i)] -= at(k, i) * x[static_cast<size_t>(k)];
    }
    x[static_cast<size_t>(i)] /= at(i, i);
  }
  return x;
}

}  // namespace thinwire::optim
