#include "thinwire/optim/products.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/base/rng.h"

namespace thinwire::optim {
namespace {

using testing::ElementsAreArray;

std::vector<float> random_matrix(int64_t count, uint64_t seed) {
  Rng rng(seed, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

// The definition of multiply(), with the same order of sums.
void multiply_plain(const Product& p, int64_t rows) {
  const int64_t stride = p.left_columns > 0 ? p.left_columns : p.inner;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < p.columns; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < p.inner; ++k) {
        const float right = p.transposed ? p.right[column * p.inner + k]
                                         : p.right[k * p.right_step * p.columns + column];
        sum += p.left[row * stride + k * p.left_step] * right;
      }
      const int64_t at = row * p.columns + column;
      p.out[at] = p.added == nullptr ? p.alpha * sum : p.alpha * sum + p.beta * p.added[at];
    }
  }
}

struct Case {
  int64_t rows, inner, columns;
};

class Products : public testing::TestWithParam<Case> {};

// Whole blocks and what is left of them in both directions, shared by rows and by columns.
INSTANTIATE_TEST_SUITE_P(Shapes, Products,
                         testing::Values(Case{1, 1, 1}, Case{8, 40, 32}, Case{13, 7, 33},
                                         Case{24, 129, 200}, Case{70, 31, 5}, Case{9, 64, 463}),
                         [](const auto& shape) {
                           return std::to_string(shape.param.rows) + "x" +
                                  std::to_string(shape.param.inner) + "x" +
                                  std::to_string(shape.param.columns);
                         });

TEST_P(Products, HaveTheBitsOfThreePlainLoops) {
  const auto [rows, inner, columns] = GetParam();
  const std::vector<float> left = random_matrix(rows * inner, 1);
  const std::vector<float> right = random_matrix(inner * columns, 2);
  const std::vector<float> added = random_matrix(rows * columns, 3);
  for (const float* more : {static_cast<const float*>(nullptr), added.data()}) {
    std::vector<float> expected(added.size());
    Product product = {left.data(), right.data(), more, expected.data(), inner, columns, 0.7f, -2};
    multiply_plain(product, rows);
    for (const int count : {1, 2, 3}) {
      ThreadPool threads(count);
      std::vector<float> got(added.size());
      product.out = got.data();
      multiply(product, rows, threads);
      ASSERT_THAT(got, ElementsAreArray(expected)) << count << " threads";
    }
  }
}

// Both operands are parts of matrices that are larger along the inner dimension.
TEST_P(Products, CanTakeEveryThirdColumnAndEverySecondRow) {
  const auto [rows, inner, columns] = GetParam();
  const int64_t left_columns = 3 * inner + 1;
  const std::vector<float> left = random_matrix(rows * left_columns, 5);
  const std::vector<float> right = random_matrix(2 * inner * columns, 6);
  std::vector<float> expected(size_t(rows * columns)), got(expected.size());
  for (int64_t at = 0; at < rows * columns; ++at) {
    for (int64_t k = 0; k < inner; ++k) {
      expected[size_t(at)] += left[size_t(at / columns * left_columns + 3 * k)] *
                              right[size_t(2 * k * columns + at % columns)];
    }
  }
  Product product = {.left = left.data(),
                     .right = right.data(),
                     .out = got.data(),
                     .inner = inner,
                     .columns = columns,
                     .left_step = 3,
                     .right_step = 2,
                     .left_columns = left_columns};
  ThreadPool threads(2);
  multiply(product, rows, threads);
  EXPECT_THAT(got, ElementsAreArray(expected));
  multiply_plain(product, rows);
  EXPECT_THAT(got, ElementsAreArray(expected));
}

TEST_P(Products, CanTakeTheTransposeOfTheRightMatrix) {
  const auto [rows, inner, columns] = GetParam();
  const std::vector<float> left = random_matrix(rows * inner, 1);
  const std::vector<float> right = random_matrix(inner * columns, 2);
  std::vector<float> turned(right.size()), expected(size_t(rows * columns)), got(expected.size());
  ThreadPool threads(2);
  transpose(right.data(), inner, columns, turned.data(), threads);
  Product product = {left.data(), right.data(), nullptr, expected.data(), inner, columns};
  multiply_plain(product, rows);
  product.right = turned.data();
  product.out = got.data();
  product.transposed = true;
  multiply(product, rows, threads);
  EXPECT_THAT(got, ElementsAreArray(expected));
  multiply_plain(product, rows);
  EXPECT_THAT(got, ElementsAreArray(expected));
}

// X X^T, and S S + S for S = X X^T, by one triangle of each.
TEST_P(Products, SymmetricOnesHaveTheBitsOfThreePlainLoops) {
  const auto [size, inner, unused] = GetParam();
  const std::vector<float> x = random_matrix(size * inner, 7);
  std::vector<float> gram(size_t(size * size)), square(gram.size());
  Product own = {.left = x.data(),
                 .right = x.data(),
                 .out = gram.data(),
                 .inner = inner,
                 .columns = size,
                 .transposed = true,
                 .symmetric = true};
  multiply_plain(own, size);
  Product squared = {.left = gram.data(),
                     .right = gram.data(),
                     .added = gram.data(),
                     .out = square.data(),
                     .inner = size,
                     .columns = size,
                     .alpha = 2.5f,
                     .beta = -3,
                     .symmetric = true};
  multiply_plain(squared, size);
  for (const int count : {1, 2, 3}) {
    ThreadPool threads(count);
    std::vector<float> got(gram.size());
    own.out = squared.out = got.data();
    multiply(own, size, threads);
    ASSERT_THAT(got, ElementsAreArray(gram)) << count << " threads";
    multiply(squared, size, threads);
    ASSERT_THAT(got, ElementsAreArray(square)) << count << " threads";
  }
}

TEST_P(Products, AreTransposedElementByElement) {
  const auto [rows, inner, columns] = GetParam();
  const std::vector<float> matrix = random_matrix(rows * columns, 4);
  std::vector<float> got(matrix.size());
  ThreadPool threads(2);
  transpose(matrix.data(), rows, columns, got.data(), threads);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      ASSERT_EQ(got[static_cast<size_t>(column * rows + row)],
                matrix[static_cast<size_t>(row * columns + column)]);
    }
  }
}

}  // namespace
}  // namespace thinwire::optim
