#include "thinwire/optim/subspace.h"

#include <algorithm>
#include <cmath>

#include "thinwire/base/rng.h"
#include "thinwire/base/scratch.h"
#include "thinwire/optim/orthonormal.h"
#include "thinwire/optim/products.h"

namespace thinwire::optim {
namespace {

using method::LowRankShape;

constexpr uint64_t kLeftStream = 1;
constexpr uint64_t kRightStream = 2;

bool has_values(std::span<const float> values) {
  return std::ranges::any_of(values, [](float value) { return value != 0; });
}

// Brings the largest value to 1, so that products with a gradient stay in the range of fp32.
void normalise(std::span<float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::fabs(value));
  if (most == 0) return;
  for (float& value : values) value /= most;
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

// Sets left to (G right^T)^T, or, where only rows are projected, to (G (left G)^T)^T, with its rows
// orthonormalised.
void Subspace::renew_left(const LowRankShape& shape, const Bases& bases, const float* gradient,
                          uint64_t seed, ThreadPool& threads, const Average& average) {
  const float* right = bases.right.data();
  if (bases.right.empty()) {
    float* const image = scratch(half_, shape.rank * shape.columns).data();
    multiply({bases.left.data(), gradient, nullptr, image, shape.rows, shape.columns}, shape.rank,
             threads);
    const std::span values(image, static_cast<size_t>(shape.rank * shape.columns));
    if (average) average(values);
    normalise(values);
    right = image;
  }
  float* const vectors = scratch(change_, shape.rows * shape.rank).data();
  times_basis(shape, gradient, right, 1, vectors, threads);
  if (!agreed({vectors, static_cast<size_t>(shape.rows * shape.rank)}, average)) return;
  transpose(vectors, shape.rows, shape.rank, bases.left.data(), threads);
  orthonormalise(bases.left, shape.rank, shape.rows, derive_seed(seed, kLeftStream));
}

// Sets right to left G, or, where only columns are projected, to (G right^T)^T G, with its rows
// orthonormalised.
void Subspace::renew_right(const LowRankShape& shape, const Bases& bases, const float* left,
                           const float* gradient, uint64_t seed, ThreadPool& threads,
                           const Average& average) {
  if (bases.left.empty()) {
    const int64_t count = shape.rows * shape.rank;
    float* const image = scratch(half_, count).data();
    times_basis(shape, gradient, bases.right.data(), 1, image, threads);
    const std::span values(image, static_cast<size_t>(count));
    if (average) average(values);
    normalise(values);
    float* const rows_first = scratch(change_, count).data();
    transpose(image, shape.rows, shape.rank, rows_first, threads);
    left = rows_first;
  }
  float* const vectors =
      average ? scratch(transposed_, shape.rank * shape.columns).data() : bases.right.data();
  multiply({left, gradient, nullptr, vectors, shape.rows, shape.columns}, shape.rank, threads);
  if (average) {
    const std::span values(vectors, bases.right.size());
    if (!agreed(values, average)) return;
    std::ranges::copy(values, bases.right.begin());
  }
  orthonormalise(bases.right, shape.rank, shape.columns, derive_seed(seed, kRightStream));
}

// Signs; orthonormal where they may remain as they are (refresh).
void Subspace::draw(const LowRankShape& shape, const Bases& bases, uint64_t seed,
                    const Average& average) {
  const uint64_t left = derive_seed(seed, kLeftStream), right = derive_seed(seed, kRightStream);
  draw_signs(bases.left, left);
  draw_signs(bases.right, right);
  if (!average) return;
  if (!bases.left.empty()) orthonormalise(bases.left, shape.rank, shape.rows, left);
  if (!bases.right.empty()) orthonormalise(bases.right, shape.rank, shape.columns, right);
}

void Subspace::refresh(const LowRankShape& shape, const Bases& bases,
                       std::span<const float> gradient, uint64_t seed, ThreadPool& threads,
                       const Average& average) {
  // Other workers' gradients may have values where this one has none.
  if (!average && !has_values(gradient)) return;
  int iterations = 1;
  if (!bases.present()) {
    iterations = method::kFirstIterations;
    draw(shape, bases, seed, average);
  }
  for (int i = 0; i < iterations; ++i) {
    old_left_.assign(bases.left.begin(), bases.left.end());
    if (!bases.left.empty()) renew_left(shape, bases, gradient.data(), seed, threads, average);
    if (!bases.right.empty()) {
      renew_right(shape, bases, old_left_.data(), gradient.data(), seed, threads, average);
    }
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
