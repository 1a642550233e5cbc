#include "thinwire/optim/subspace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cmath>
#include <thread>
#include <vector>

#include "jacobi.h"
#include "tests/optim/random_values.h"
#include "thinwire/optim/products.h"

namespace thinwire::optim {
namespace {

using method::LowRankShape;
using method::Sides;
using testing::Each;
using testing::ElementsAreArray;
using testing::FloatNear;
using testing::Pointwise;

std::vector<float> random_matrix(int64_t count, uint64_t seed) {
  return random_values(count, seed, 1);
}

ThreadPool& one_thread() {
  static ThreadPool threads(1);
  return threads;
}

// A matrix whose singular values fall by `ratio`.
std::vector<float> decaying(int64_t rows, int64_t columns, double ratio, uint64_t seed) {
  std::vector<float> left = random_matrix(rows * rows, seed);
  orthonormalise(left, rows, rows, 1, one_thread());
  for (int64_t i = 0; i < rows * rows; ++i) {
    left[size_t(i)] *= static_cast<float>(std::pow(ratio, double(i % rows)));
  }
  std::vector<float> right = random_matrix(rows * columns, seed + 1);
  orthonormalise(right, rows, columns, 1, one_thread());
  std::vector<float> matrix(size_t(rows * columns));
  multiply({left.data(), right.data(), nullptr, matrix.data(), rows, columns}, rows, one_thread());
  return matrix;
}

double square_norm(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double(value) * value;
  return sum;
}

float product(const std::vector<float>& rows, int64_t length, int64_t a, int64_t b) {
  double sum = 0;
  for (int64_t i = 0; i < length; ++i) {
    sum += double(rows[size_t(a * length + i)]) * rows[size_t(b * length + i)];
  }
  return float(sum);
}

void expect_orthonormal(const std::vector<float>& rows, int64_t count, int64_t length) {
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b <= a; ++b) {
      ASSERT_NEAR(product(rows, length, a, b), a == b ? 1 : 0, 2e-6) << a << " " << b;
    }
  }
}

struct Held {
  explicit Held(const LowRankShape& shape)
      : left(shape.projects_rows() ? size_t(shape.rank * shape.rows) : 0),
        right(shape.projects_columns() ? size_t(shape.rank * shape.columns) : 0) {}
  Bases bases() { return {left, right}; }
  std::vector<float> left, right;
};

TEST(Orthonormal, RowsKeepTheirOrderAndSign) {
  constexpr int64_t kCount = 21, kLength = 70;
  const std::vector<float> before = random_matrix(kCount * kLength, 1);
  std::vector<float> rows = before;
  orthonormalise(rows, kCount, kLength, 1, one_thread());
  expect_orthonormal(rows, kCount, kLength);
  for (int64_t row = 0; row < kCount; ++row) {
    double along = 0;
    for (int64_t i = 0; i < kLength; ++i) {
      along += double(before[size_t(row * kLength + i)]) * rows[size_t(row * kLength + i)];
    }
    EXPECT_GT(along, 0) << row;
  }
}

TEST(Orthonormal, RowsThatDependOnOthersAreReplaced) {
  constexpr int64_t kCount = 9, kLength = 9;
  std::vector<float> rows = random_matrix(kCount * kLength, 2);
  for (int64_t i = 0; i < kLength; ++i) {
    rows[size_t(3 * kLength + i)] = 0;
    rows[size_t(4 * kLength + i)] = rows[size_t(i)] - 2 * rows[size_t(kLength + i)];
    rows[size_t(8 * kLength + i)] = rows[size_t(5 * kLength + i)] * 1e-30f;
  }
  orthonormalise(rows, kCount, kLength, 1, one_thread());
  expect_orthonormal(rows, kCount, kLength);
}

TEST(Orthonormal, NearlyEqualRowsBecomeOrthogonalToRounding) {
  constexpr int64_t kCount = 12, kLength = 200;
  const std::vector<float> one = random_matrix(kLength, 3);
  std::vector<float> rows = random_matrix(kCount * kLength, 4);
  for (int64_t i = 0; i < kCount * kLength; ++i) {
    rows[size_t(i)] = one[size_t(i % kLength)] + 1e-3f * rows[size_t(i)];
  }
  orthonormalise(rows, kCount, kLength, 1, one_thread());
  expect_orthonormal(rows, kCount, kLength);
}

// A renewal, or the first bases.
void renew_bases(Subspace& subspace, const LowRankShape& shape, const Bases& bases,
                 std::span<const float> gradient, uint64_t seed, ThreadPool& threads,
                 const Average& average = {}) {
  if (!bases.present()) return subspace.start(shape, bases, gradient, seed, threads, average);
  std::vector<float> core(size_t(element_count(shape.core())));
  subspace.project(shape, bases, gradient, 1, core, threads);
  subspace.renew(shape, bases, {gradient, core, seed}, threads, average);
}

void renew_bases(const LowRankShape& shape, const Bases& bases, std::span<const float> gradient,
                 uint64_t seed, ThreadPool& threads, const Average& average = {}) {
  Subspace subspace;
  renew_bases(subspace, shape, bases, gradient, seed, threads, average);
}

class SubspaceOf : public testing::TestWithParam<LowRankShape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, SubspaceOf,
                         testing::Values(LowRankShape{20, 33, 5}, LowRankShape{40, 18, 7},
                                         LowRankShape{24, 24, 4},
                                         LowRankShape{20, 33, 5, Sides::kTwo},
                                         LowRankShape{40, 18, 7, Sides::kTwo}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.rows) + "x" +
                                  std::to_string(shape.param.columns) +
                                  (shape.param.sides == Sides::kTwo ? "Twice" : "");
                         });

TEST_P(SubspaceOf, BasesAreOrthonormalAndTheSameForAnyNumberOfThreads) {
  const LowRankShape shape = GetParam();
  const std::vector<float> gradient = random_matrix(shape.rows * shape.columns, 5);
  Held first(shape);
  for (const int count : {1, 2, 3}) {
    ThreadPool threads(count);
    Held held(shape);
    EXPECT_FALSE(held.bases().present());
    renew_bases(shape, held.bases(), gradient, 7, threads);
    EXPECT_TRUE(held.bases().present());
    if (count == 1) first = held;
    EXPECT_THAT(held.left, ElementsAreArray(first.left));
    EXPECT_THAT(held.right, ElementsAreArray(first.right));
  }
  if (shape.projects_rows()) expect_orthonormal(first.left, shape.rank, shape.rows);
  if (shape.projects_columns()) expect_orthonormal(first.right, shape.rank, shape.columns);
}

// What is lifted out of a subspace and projected again is what it was.
TEST_P(SubspaceOf, ProjectingUndoesLifting) {
  const LowRankShape shape = GetParam();
  ThreadPool threads(2);
  Subspace subspace;
  Held held(shape);
  renew_bases(subspace, shape, held.bases(), random_matrix(shape.rows * shape.columns, 6), 7,
              threads);
  const std::vector<float> core = random_matrix(element_count(shape.core()), 8);
  std::vector<float> full(size_t(shape.rows * shape.columns)), again(core.size());
  subspace.lift(shape, held.bases(), core, full, threads);
  EXPECT_NEAR(square_norm(full), square_norm(core), 1e-4 * square_norm(core));
  subspace.project(shape, held.bases(), full, 0.5f, again, threads);
  for (size_t i = 0; i < core.size(); ++i) ASSERT_NEAR(again[i], 0.5f * core[i], 1e-5f);
}

// Where the new subspace is the old one, a rotated core is the same matrix in other coordinates.
TEST_P(SubspaceOf, RotatingIsLiftingAndProjecting) {
  const LowRankShape shape = GetParam();
  ThreadPool threads(1);
  Subspace subspace;
  Held before(shape), now(shape);
  const int64_t count = shape.rows * shape.columns;
  renew_bases(subspace, shape, before.bases(), random_matrix(count, 9), 7, threads);
  renew_bases(subspace, shape, now.bases(), random_matrix(count, 10), 7, threads);
  std::vector<float> core = random_matrix(element_count(shape.core()), 11);
  std::vector<float> full(static_cast<size_t>(count)), expected(core.size());
  subspace.lift(shape, before.bases(), core, full, threads);
  subspace.project(shape, now.bases(), full, 1, expected, threads);
  subspace.rotate(shape, before.bases(), now.bases(), false, core, threads);
  EXPECT_THAT(core, Pointwise(FloatNear(1e-5f), expected));
}

TEST_P(SubspaceOf, VariancesOfARotatedCoreAddUp) {
  const LowRankShape shape = GetParam();
  ThreadPool threads(1);
  Subspace subspace;
  Held held(shape);
  renew_bases(subspace, shape, held.bases(), random_matrix(shape.rows * shape.columns, 12), 7,
              threads);
  std::vector<float> ones(size_t(element_count(shape.core())), 1.0f);
  subspace.rotate(shape, held.bases(), held.bases(), true, ones, threads);
  EXPECT_THAT(ones, Each(FloatNear(1, 1e-5f)));
}

TEST_P(SubspaceOf, AGradientOfZerosChangesNothing) {
  const LowRankShape shape = GetParam();
  ThreadPool threads(1);
  Subspace subspace;
  Held held(shape);
  const std::vector<float> zeros(size_t(shape.rows * shape.columns));
  renew_bases(subspace, shape, held.bases(), zeros, 7, threads);
  EXPECT_FALSE(held.bases().present());
  renew_bases(subspace, shape, held.bases(), random_matrix(shape.rows * shape.columns, 13), 7,
              threads);
  const Held before = held;
  renew_bases(subspace, shape, held.bases(), zeros, 7, threads);
  EXPECT_EQ(held.left, before.left);
  EXPECT_EQ(held.right, before.right);
}

TEST_P(SubspaceOf, TinyGradientsHaveTheSameSubspace) {
  const LowRankShape shape = GetParam();
  ThreadPool threads(1);
  Held large(shape), tiny(shape);
  std::vector<float> gradient = random_matrix(shape.rows * shape.columns, 14);
  renew_bases(shape, large.bases(), gradient, 7, threads);
  for (float& value : gradient) value = std::ldexp(value, -100);
  renew_bases(shape, tiny.bases(), gradient, 7, threads);
  EXPECT_EQ(tiny.left, large.left);
  EXPECT_EQ(tiny.right, large.right);
}

// Two workers that each hold a part of a gradient, with a mean that is formed in lockstep.
struct Workers {
  Workers(const LowRankShape& shape, uint64_t seed)
      : parts{random_matrix(shape.rows * shape.columns, seed),
              random_matrix(shape.rows * shape.columns, seed + 1)},
        held{Held(shape), Held(shape)} {}

  std::vector<float> mean() const {
    std::vector<float> sum = parts[0];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = (sum[i] + parts[1][i]) / 2;
    return sum;
  }

  // Each worker's renewal, on a thread of its own.
  void refresh(const LowRankShape& shape) {
    std::barrier meet(2);
    std::array<std::span<float>, 2> shared;
    const auto renew = [&](size_t worker) {
      ThreadPool threads(1);
      renew_bases(shape, held[worker].bases(), parts[worker], 7, threads,
                  [&](std::span<float> values) {
                    shared[worker] = values;
                    meet.arrive_and_wait();
                    std::vector<float> sum(values.begin(), values.end());
                    for (size_t i = 0; i < sum.size(); ++i) {
                      sum[i] = (shared[0][i] + shared[1][i]) / 2;
                    }
                    meet.arrive_and_wait();
                    std::ranges::copy(sum, values.begin());
                    sent += values.size();
                  });
    };
    std::thread other([&] { renew(1); });
    renew(0);
    other.join();
  }

  std::array<std::vector<float>, 2> parts;
  std::array<Held, 2> held;
  std::atomic<size_t> sent = 0;
};

// Workers agree to the bit, on the bases of their mean gradient.
TEST_P(SubspaceOf, WorkersGetTheBasesOfTheirMeanGradient) {
  const LowRankShape shape = GetParam();
  Workers workers(shape, 40);
  ThreadPool threads(1);
  Held alone(shape);
  const auto expect_agreement = [&] {
    EXPECT_EQ(workers.held[0].left, workers.held[1].left);
    EXPECT_EQ(workers.held[0].right, workers.held[1].right);
    EXPECT_THAT(workers.held[0].left, Pointwise(FloatNear(2e-4f), alone.left));
    EXPECT_THAT(workers.held[0].right, Pointwise(FloatNear(2e-4f), alone.right));
  };
  renew_bases(shape, alone.bases(), workers.mean(), 7, threads);
  workers.refresh(shape);
  expect_agreement();
  EXPECT_EQ(workers.sent, 2 * 4 * size_t(shape.rank * (shape.rows + shape.columns)));
  for (std::vector<float>& part : workers.parts) std::ranges::reverse(part);
  renew_bases(shape, alone.bases(), workers.mean(), 7, threads);
  workers.refresh(shape);
  expect_agreement();
}

TEST_P(SubspaceOf, AMeanGradientOfZerosChangesNothing) {
  const LowRankShape shape = GetParam();
  Workers workers(shape, 50);
  const std::vector<float> zeros(workers.parts[0].size());
  workers.parts = {zeros, zeros};
  workers.refresh(shape);
  EXPECT_EQ(workers.held[0].left, workers.held[1].left);
  if (shape.projects_rows()) expect_orthonormal(workers.held[0].left, shape.rank, shape.rows);
  if (shape.projects_columns()) {
    expect_orthonormal(workers.held[0].right, shape.rank, shape.columns);
  }
  const Held before = workers.held[0];
  workers.refresh(shape);
  EXPECT_EQ(workers.held[1].left, before.left);
  EXPECT_EQ(workers.held[1].right, before.right);
  // A worker without a gradient follows the others.
  workers.parts[1] = random_matrix(shape.rows * shape.columns, 52);
  workers.refresh(shape);
  EXPECT_EQ(workers.held[0].left, workers.held[1].left);
  EXPECT_EQ(workers.held[0].right, workers.held[1].right);
  EXPECT_FALSE(workers.held[0].left == before.left && workers.held[0].right == before.right);
}

// Against the singular value decomposition: singular vectors one by one, after some renewals on the
// same gradient.
TEST(Subspace, ReachesTheLeadingSingularVectors) {
  constexpr int64_t kRows = 24, kColumns = 40, kRank = 12;  // too many to leave out a column
  const std::vector<float> gradient = decaying(kRows, kColumns, 0.7, 20);
  const SingularVectors exact = left_singular_vectors(gradient, kRows, kColumns);
  for (size_t i = 0; i < kRank; ++i) EXPECT_NEAR(exact.values[i], std::pow(0.7, i), 1e-6);
  ThreadPool threads(1);
  Subspace subspace;
  const LowRankShape shape = {kRows, kColumns, kRank};
  Held held(shape);
  for (int i = 0; i < 20; ++i) renew_bases(subspace, shape, held.bases(), gradient, 3, threads);
  for (size_t i = 0; i < kRank; ++i) {
    double along = 0;
    for (size_t j = 0; j < kRows; ++j) along += exact.vectors[i][j] * held.left[i * kRows + j];
    EXPECT_NEAR(std::fabs(along), 1, 1e-5) << i;
  }
}

// Of the larger dimension: every fifth index from the second one on in the renewal of number 6.
TEST(Subspace, ARenewalSumsOverAPartOfTheLargerDimension) {
  constexpr int64_t kLarge = 32, kSmall = 14, kRank = 3;
  ThreadPool threads(2);
  for (const LowRankShape shape :
       {LowRankShape{kSmall, kLarge, kRank}, LowRankShape{kLarge, kSmall, kRank}}) {
    const std::vector<float> gradient = random_matrix(kLarge * kSmall, 60);
    Held held(shape);
    Subspace subspace;
    subspace.start(shape, held.bases(), gradient, 7, threads);
    std::vector<float> core(kRank * kLarge), expected(kRank * kSmall);
    subspace.project(shape, held.bases(), gradient, 1, core, threads);
    subspace.renew(shape, held.bases(), {gradient, core, 7, 6}, threads);
    const bool wide = shape.projects_rows();
    for (int64_t vector = 0; vector < kRank; ++vector) {
      for (int64_t i = 0; i < kSmall; ++i) {
        for (int64_t k = 1; k < kLarge; k += 5) {
          const float of_gradient = gradient[size_t(wide ? i * kLarge + k : k * kSmall + i)];
          const float of_core = core[size_t(wide ? vector * kLarge + k : k * kRank + vector)];
          expected[size_t(vector * kSmall + i)] += of_gradient * of_core;
        }
      }
    }
    orthonormalise(expected, kRank, kSmall, 7, threads);
    EXPECT_THAT(wide ? held.left : held.right, Pointwise(FloatNear(1e-6f), expected));
  }
}

// The first bases already capture nearly as much of a gradient as its singular vectors do.
TEST(Subspace, FirstBasesCaptureNearlyAllThatCanBeCaptured) {
  constexpr int64_t kRows = 48, kColumns = 80, kRank = 12;
  const std::vector<float> gradient = decaying(kRows, kColumns, 0.93, 30);
  const SingularVectors exact = left_singular_vectors(gradient, kRows, kColumns);
  double most = 0;
  for (size_t i = 0; i < kRank; ++i) most += exact.values[i] * exact.values[i];
  ThreadPool threads(1);
  Subspace subspace;
  const LowRankShape shape = {kRows, kColumns, kRank};
  Held held(shape);
  renew_bases(subspace, shape, held.bases(), gradient, 3, threads);
  std::vector<float> core(kRank * kColumns);
  subspace.project(shape, held.bases(), gradient, 1, core, threads);
  EXPECT_GT(square_norm(core), 0.98 * most);
  EXPECT_LE(square_norm(core), most * (1 + 1e-5));
}

// An element of the mean of P P^T has a standard deviation of 1 / sqrt(rank draws).
TEST(SeededBases, KeepEveryDirectionOnAverage) {
  constexpr int64_t kRows = 7, kRank = 3;
  constexpr int kDraws = 3000;
  const LowRankShape shape = {.rows = kRows, .columns = 9, .rank = kRank};
  std::vector<float> left(kRank * kRows);
  std::vector<double> mean(kRows * kRows);
  for (int draw = 0; draw < kDraws; ++draw) {
    draw_seeded(shape, {left, {}}, static_cast<uint64_t>(draw));
    for (int64_t i = 0; i < kRows * kRows; ++i) {
      for (int64_t k = 0; k < kRank; ++k) {
        mean[size_t(i)] += double(left[size_t(k * kRows + i / kRows)]) *
                           double(left[size_t(k * kRows + i % kRows)]) / kDraws;
      }
    }
  }
  for (int64_t i = 0; i < kRows * kRows; ++i) {
    EXPECT_NEAR(mean[size_t(i)], i / kRows == i % kRows ? 1 : 0, 0.05);
  }
}

}  // namespace
}  // namespace thinwire::optim
