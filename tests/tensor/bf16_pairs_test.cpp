#include "thinwire/tensor/products/bf16_pairs.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/tensor/numbers.h"
#include "tests/tensor/targets.h"

namespace thinwire::tensor {
namespace {

class Bf16Pairs : public OnEachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Bf16Pairs, testing::ValuesIn(compiled_targets()),
                         [](const auto& target) { return target_name(target.param); });

constexpr int64_t kGap = 3;

Bf16 element(Transpose t, const std::vector<Bf16>& matrix, int64_t ld, int64_t row, int64_t column,
             int64_t depth, int64_t at) {
  if (at == depth) return Bf16();  // what fills up an odd depth
  return matrix[static_cast<size_t>(t == Transpose::kNo ? row * ld + column : column * ld + row)];
}

TEST_P(Bf16Pairs, AreNeighboursInDepth) {
  for (const Transpose t : {Transpose::kNo, Transpose::kYes}) {
    for (const int64_t depth : {1, 2, 13, 32}) {
      for (const int64_t columns : {1, 7, 64}) {
        const int64_t ld = (t == Transpose::kNo ? columns : depth) + kGap;
        const auto matrix = random_values<Bf16>(ld * (t == Transpose::kNo ? depth : columns), 1);
        std::vector<Bf16> pairs(static_cast<size_t>((depth + 1) / 2 * 2 * kPairColumns));
        pack_pairs(t, depth, columns, matrix.data(), ld, pairs.data());
        for (int64_t i = 0; i < (depth + 1) / 2 * 2; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            const Bf16 got = pairs[static_cast<size_t>((i / 2 * kPairColumns + j) * 2 + i % 2)];
            ASSERT_EQ(got.bits, element(t, matrix, ld, i, j, depth, i).bits) << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST_P(Bf16Pairs, RowsOfATransposedBlockLieOneBehindTheOther) {
  constexpr int64_t kStride = 40;
  for (const Transpose t : {Transpose::kNo, Transpose::kYes}) {
    for (const int64_t depth : {1, 2, 13, 32}) {
      for (const int64_t rows : {1, 7, 64}) {
        const int64_t ld = (t == Transpose::kNo ? depth : rows) + kGap;
        const auto matrix = random_values<Bf16>(ld * (t == Transpose::kNo ? rows : depth), 1);
        std::vector<Bf16> pairs(static_cast<size_t>((depth + 1) / 2 * 2 * kPairColumns));
        std::vector<Bf16> to(static_cast<size_t>(rows * kStride));
        pack_rows(t, rows, depth, matrix.data(), ld, to.data(), kStride, pairs.data());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < (depth + 1) / 2 * 2; ++i) {
            ASSERT_EQ(to[static_cast<size_t>(r * kStride + i)].bits,
                      element(t, matrix, ld, r, i, depth, i).bits)
                << r << ", " << i;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::tensor
