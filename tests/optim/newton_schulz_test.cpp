#include "thinwire/optimizers/muon/newton_schulz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/rng.h"

namespace thinwire::optim {
namespace {

using testing::Each;
using testing::ElementsAreArray;

std::vector<float> random_matrix(int64_t count) {
  Rng rng(3, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

std::vector<float> orthogonalised(std::vector<float> matrix, int64_t rows, int64_t columns,
                                  int threads = 1) {
  ThreadPool pool(threads);
  NewtonSchulz().orthogonalise(matrix, rows, columns, pool);
  return matrix;
}

// Singular values of a diagonal matrix go through the polynomial one by one.
TEST(NewtonSchulz, IsAPolynomialOfTheSingularValues) {
  const std::vector<double> diagonal = {3, 0.5, 1, 0.01, 2, 0.2};
  constexpr int64_t kColumns = 41;
  std::vector<float> matrix(diagonal.size() * kColumns);
  double squares = 0;
  for (size_t i = 0; i < diagonal.size(); ++i) {
    matrix[i * kColumns + i] = static_cast<float>(diagonal[i]);
    squares += diagonal[i] * diagonal[i];
  }
  const auto rows = static_cast<int64_t>(diagonal.size());
  const std::vector<float> got = orthogonalised(matrix, rows, kColumns);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i / kColumns;
    if (i % kColumns != row) {
      ASSERT_EQ(got[i], 0.0f);
      continue;
    }
    double x = diagonal[row] / std::sqrt(squares);
    for (int step = 0; step < kNewtonSchulzSteps; ++step) {
      x = kNewtonSchulzA * x + kNewtonSchulzB * std::pow(x, 3) + kNewtonSchulzC * std::pow(x, 5);
    }
    EXPECT_NEAR(got[i], x, 1e-5) << row;
  }
}

TEST(NewtonSchulz, RowsOfAWideMatrixBecomeNearlyOrthogonal) {
  constexpr int64_t kRows = 37, kColumns = 150;
  const std::vector<float> got = orthogonalised(random_matrix(kRows * kColumns), kRows, kColumns);
  for (int64_t a = 0; a < kRows; ++a) {
    for (int64_t b = 0; b < kRows; ++b) {
      double product = 0;
      for (int64_t i = 0; i < kColumns; ++i)
        product += got[a * kColumns + i] * got[b * kColumns + i];
      EXPECT_NEAR(product, a == b ? 0.9 : 0, 0.45) << a << " " << b;
    }
  }
}

TEST(NewtonSchulz, TallMatricesAreTheTransposeOfWideOnes) {
  constexpr int64_t kRows = 19, kColumns = 66;
  const std::vector<float> wide = random_matrix(kRows * kColumns);
  std::vector<float> tall(wide.size());
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    tall[static_cast<size_t>(i % kColumns * kRows + i / kColumns)] = wide[static_cast<size_t>(i)];
  }
  const std::vector<float> a = orthogonalised(wide, kRows, kColumns);
  const std::vector<float> b = orthogonalised(tall, kColumns, kRows);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    ASSERT_NEAR(a[static_cast<size_t>(i)],
                b[static_cast<size_t>(i % kColumns * kRows + i / kColumns)], 1e-6);
  }
}

TEST(NewtonSchulz, ThreadsDoNotChangeTheBits) {
  const std::vector<float> matrix = random_matrix(53 * 97);
  EXPECT_THAT(orthogonalised(matrix, 53, 97, 3), ElementsAreArray(orthogonalised(matrix, 53, 97)));
}

TEST(NewtonSchulz, LeavesZerosAlone) {
  EXPECT_THAT(orthogonalised(std::vector<float>(12), 3, 4), Each(0.0f));
}

}  // namespace
}  // namespace thinwire::optim
