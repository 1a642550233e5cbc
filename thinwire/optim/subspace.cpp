#include "thinwire/optim/subspace.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "thinwire/base/rng.h"
#include "thinwire/base/scratch.h"
#include "thinwire/optim/products.h"

namespace thinwire::optim {
namespace {

using method::LowRankShape;

constexpr int64_t kTransposed = 16;  // columns that are transposed
constexpr uint64_t kLeftStream = 1;
constexpr uint64_t kRightStream = 2;

bool has_values(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return value != 0; });
}

// Writes the columns of the part of a matrix [rows, columns], transposed.
void take_columns(const float* in, int64_t rows, int64_t columns, const Subspace::Part& part,
                  float* out, ThreadPool& threads) {
  threads.for_ranges(part.count, kTransposed, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; i += kTransposed) {
      for (int64_t row = 0; row < rows; ++row) {
        const float* const from = in + row * columns + part.first;
        for (int64_t j = i; j < std::min(end, i + kTransposed); ++j) {
          out[j * rows + row] = from[j * part.step];
        }
      }
    }
  });
}

// Writes the rows of the part of a matrix [rows, columns], transposed.
void take_rows(const float* in, int64_t columns, const Subspace::Part& part, float* out,
               ThreadPool& threads) {
  threads.for_ranges(columns, kTransposed, [&](int64_t begin, int64_t end, int) {
    for (int64_t x = begin; x < end; x += kTransposed) {
      for (int64_t i = 0; i < part.count; ++i) {
        const float* const from = in + (part.first + i * part.step) * columns;
        for (int64_t column = x; column < std::min(end, x + kTransposed); ++column) {
          out[column * part.count + i] = from[column];
        }
      }
    }
  });
}

// Replaces vectors by their mean, if there is one to form, and returns whether bases follow it: not
// where it is zero.
bool agreed(std::span<float> vectors, const Average& average) {
  if (!average) return true;
  average(vectors);
  return has_values(vectors);
}

}  // namespace

bool Bases::present() const { return has_values(left.empty() ? right : left); }

void draw_seeded(const LowRankShape& shape, const Bases& bases, uint64_t seed) {
  const auto size = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.rank)));
  for (const auto& [basis, stream] :
       {std::pair(bases.left, kLeftStream), {bases.right, kRightStream}}) {
    draw_signs(basis, derive_seed(seed, stream));
    for (float& value : basis) value *= size;
  }
}

void Subspace::times_basis(const LowRankShape& shape, const float* gradient, const float* basis,
                           float factor, float* out, ThreadPool& threads) {
  float* const columns_first = scratch(transposed_, shape.columns * shape.rank).data();
  transpose(basis, shape.rank, shape.columns, columns_first, threads);
  multiply({gradient, columns_first, nullptr, out, shape.columns, shape.rank, factor}, shape.rows,
           threads);
}

void Subspace::project(const LowRankShape& shape, const Bases& bases,
                       std::span<const float> gradient, float factor, std::span<float> core,
                       ThreadPool& threads) {
  if (bases.right.empty()) {
    multiply({bases.left.data(), gradient.data(), nullptr, core.data(), shape.rows, shape.columns,
              factor},
             shape.rank, threads);
    return;
  }
  if (bases.left.empty()) {
    times_basis(shape, gradient.data(), bases.right.data(), factor, core.data(), threads);
    return;
  }
  float* const half = scratch(half_, shape.rows * shape.rank).data();
  times_basis(shape, gradient.data(), bases.right.data(), 1, half, threads);
  multiply({bases.left.data(), half, nullptr, core.data(), shape.rows, shape.rank, factor},
           shape.rank, threads);
}

Subspace::Factors Subspace::factors(const LowRankShape& shape, const Bases& bases,
                                    std::span<const float> core, ThreadPool& threads) {
  if (bases.left.empty()) return {core.data(), bases.right.data()};
  float* const vectors = scratch(transposed_, shape.rows * shape.rank).data();
  transpose(bases.left.data(), shape.rank, shape.rows, vectors, threads);
  if (bases.right.empty()) return {vectors, core.data()};
  float* const half = scratch(half_, shape.rows * shape.rank).data();
  multiply({vectors, core.data(), nullptr, half, shape.rank, shape.rank}, shape.rows, threads);
  return {half, bases.right.data()};
}

void Subspace::lift(const LowRankShape& shape, const Bases& bases, std::span<const float> core,
                    std::span<float> full, ThreadPool& threads, float kept) {
  const float* const added = kept == 0 ? nullptr : full.data();
  const auto [left, right] = factors(shape, bases, core, threads);
  multiply({left, right, added, full.data(), shape.rank, shape.columns, 1, kept}, shape.rows,
           threads);
}

std::span<const float> Subspace::mean_core(const Renewal& renewal, const Average& average) {
  if (!average) return renewal.core;
  const std::span<float> mean = scratch(core_, static_cast<int64_t>(renewal.core.size()));
  std::ranges::copy(renewal.core, mean.begin());
  average(mean);
  return mean;
}

// Sets left to (G right^T)^T, or, where only rows are projected, to (G core^T)^T of a part of the
// columns, with its rows orthonormalised.
void Subspace::renew_left(const LowRankShape& shape, const Bases& bases, const Renewal& renewal,
                          const Part& part, ThreadPool& threads, const Average& average) {
  const float* const gradient = renewal.gradient.data();
  const std::span<float> vectors = scratch(change_, shape.rows * shape.rank);
  if (bases.right.empty()) {
    const std::span<float> image = scratch(half_, part.count * shape.rank);
    take_columns(mean_core(renewal, average).data(), shape.rank, shape.columns, part, image.data(),
                 threads);
    normalise(image);  // so that products with a gradient stay in the range of fp32
    multiply({.left = gradient + part.first,
              .right = image.data(),
              .out = vectors.data(),
              .inner = part.count,
              .columns = shape.rank,
              .left_step = part.step,
              .left_columns = shape.columns},
             shape.rows, threads);
  } else {
    times_basis(shape, gradient, bases.right.data(), 1, vectors.data(), threads);
  }
  if (!agreed(vectors, average)) return;
  transpose(vectors.data(), shape.rows, shape.rank, bases.left.data(), threads);
  orthonormalise(bases.left, shape.rank, shape.rows, derive_seed(renewal.seed, kLeftStream),
                 threads);
}

// Sets right to left G, or, where only columns are projected, to core^T G of a part of the rows,
// with its rows orthonormalised.
void Subspace::renew_right(const LowRankShape& shape, const Bases& bases, const float* left,
                           const Renewal& renewal, const Part& part, ThreadPool& threads,
                           const Average& average) {
  const std::span<float> vectors =
      average ? scratch(transposed_, shape.rank * shape.columns) : bases.right;
  Product product = {.left = left,
                     .right = renewal.gradient.data(),
                     .out = vectors.data(),
                     .inner = shape.rows,
                     .columns = shape.columns};
  if (bases.left.empty()) {
    const std::span<float> image = scratch(half_, shape.rank * part.count);
    take_rows(mean_core(renewal, average).data(), shape.rank, part, image.data(), threads);
    normalise(image);
    product.left = image.data();
    product.right += part.first * shape.columns;
    product.inner = part.count;
    product.right_step = part.step;
  }
  multiply(product, shape.rank, threads);
  if (average) {
    if (!agreed(vectors, average)) return;
    std::ranges::copy(vectors, bases.right.begin());
  }
  orthonormalise(bases.right, shape.rank, shape.columns, derive_seed(renewal.seed, kRightStream),
                 threads);
}

// Signs; orthonormal where they may remain as they are (renew).
void Subspace::draw(const LowRankShape& shape, const Bases& bases, uint64_t seed,
                    ThreadPool& threads, const Average& average) {
  const uint64_t left = derive_seed(seed, kLeftStream), right = derive_seed(seed, kRightStream);
  draw_signs(bases.left, left);
  draw_signs(bases.right, right);
  if (!average) return;
  if (!bases.left.empty()) orthonormalise(bases.left, shape.rank, shape.rows, left, threads);
  if (!bases.right.empty()) {
    orthonormalise(bases.right, shape.rank, shape.columns, right, threads);
  }
}

void Subspace::start(const LowRankShape& shape, const Bases& bases, std::span<const float> gradient,
                     uint64_t seed, ThreadPool& threads, const Average& average) {
  // Other workers' gradients may have values where this one has none.
  if (!average && !has_values(gradient)) return;
  draw(shape, bases, seed, threads, average);
  std::vector<float> core(static_cast<size_t>(element_count(shape.core())));
  const Part all = {.first = 0, .step = 1, .count = std::max(shape.rows, shape.columns)};
  for (int i = 0; i < method::kFirstIterations; ++i) {
    if (shape.sides == method::Sides::kOne) project(shape, bases, gradient, 1, core, threads);
    iterate(shape, bases, {gradient, core, seed}, all, threads, average);
  }
}

void Subspace::renew(const LowRankShape& shape, const Bases& bases, const Renewal& renewal,
                     ThreadPool& threads, const Average& average) {
  const int64_t larger = std::max(shape.rows, shape.columns);
  const int64_t step = std::max<int64_t>(larger / (kTakenPerRank * shape.rank), 1);
  const auto first = static_cast<int64_t>(renewal.number % static_cast<uint64_t>(step));
  const Part part = {first, step, (larger - first + step - 1) / step};
  iterate(shape, bases, renewal, part, threads, average);
}

void Subspace::iterate(const LowRankShape& shape, const Bases& bases, const Renewal& renewal,
                       const Part& part, ThreadPool& threads, const Average& average) {
  if (!average && !has_values(renewal.gradient)) return;
  old_left_.assign(bases.left.begin(), bases.left.end());
  if (!bases.left.empty()) renew_left(shape, bases, renewal, part, threads, average);
  if (!bases.right.empty()) {
    renew_right(shape, bases, old_left_.data(), renewal, part, threads, average);
  }
}

void Subspace::change_of_basis(int64_t rank, int64_t length, const float* before, const float* now,
                               bool squared, ThreadPool& threads) {
  float* const columns_first = scratch(transposed_, length * rank).data();
  float* const change = scratch(change_, rank * rank).data();
  transpose(before, rank, length, columns_first, threads);
  multiply({now, columns_first, nullptr, change, length, rank}, rank, threads);
  if (!squared) return;
  for (int64_t i = 0; i < rank * rank; ++i) change[i] *= change[i];
}

void Subspace::rotate(const LowRankShape& shape, const Bases& before, const Bases& now,
                      bool squared, std::span<float> core, ThreadPool& threads) {
  const int64_t rank = shape.rank;
  const auto count = static_cast<int64_t>(core.size());
  float* const rotated = scratch(half_, count).data();
  if (!now.left.empty()) {
    change_of_basis(rank, shape.rows, before.left.data(), now.left.data(), squared, threads);
    multiply({change_.data(), core.data(), nullptr, rotated, rank, count / rank}, rank, threads);
    std::copy_n(rotated, count, core.begin());
  }
  if (!now.right.empty()) {
    change_of_basis(rank, shape.columns, before.right.data(), now.right.data(), squared, threads);
    float* const turned = scratch(transposed_, rank * rank).data();
    transpose(change_.data(), rank, rank, turned, threads);
    multiply({core.data(), turned, nullptr, rotated, rank, rank}, count / rank, threads);
    std::copy_n(rotated, count, core.begin());
  }
}

}  // namespace thinwire::optim
