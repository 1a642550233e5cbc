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
      for (const int64_t columns : {1, 7, 64, 150}) {
        const int64_t ld = (t == Transpose::kNo ? columns : depth) + kGap;
        const auto matrix = random_values<Bf16>(ld * (t == Transpose::kNo ? depth : columns), 1);
        const int64_t panel = (depth + 1) / 2 * 2 * kPairColumns + kGap;
        std::vector<Bf16> pairs(static_cast<size_t>((columns / kPairColumns + 1) * panel));
        pack_pairs(t, depth, columns, matrix.data(), ld, pairs.data(), panel);
        for (int64_t i = 0; i < (depth + 1) / 2 * 2; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            const int64_t first = j / kPairColumns * panel + i / 2 * 2 * kPairColumns;
            const Bf16 got = pairs[static_cast<size_t>(first + j % kPairColumns * 2 + i % 2)];
            ASSERT_EQ(got.bits, element(t, matrix, ld, i, j, depth, i).bits) << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST_P(Bf16Pairs, BecomeRowsAgain) {
  constexpr int64_t kStride = 40;
  for (const int64_t depth : {1, 2, 13, 32}) {
    for (const int64_t columns : {1, 7, 64}) {
      const auto matrix = random_values<Bf16>(depth * columns, 1);
      const int64_t pairs = (depth + 1) / 2;
      std::vector<Bf16> packed(static_cast<size_t>(2 * pairs * kPairColumns));
      pack_pairs(Transpose::kNo, depth, columns, matrix.data(), columns, packed.data(), 0);
      std::vector<Bf16> to(static_cast<size_t>(columns * kStride));
      unpack_pairs(pairs, columns, packed.data(), 2 * kPairColumns, to.data(), kStride);
      for (int64_t j = 0; j < columns; ++j) {
        for (int64_t i = 0; i < 2 * pairs; ++i) {
          ASSERT_EQ(to[static_cast<size_t>(j * kStride + i)].bits,
                    element(Transpose::kNo, matrix, columns, i, j, depth, i).bits)
              << j << ", " << i;
        }
      }
    }
  }
}

TEST(PadRows, EndInWholePairs) {
  const auto matrix = random_values<Bf16>(2 * 5, 1);
  std::vector<Bf16> to(2 * 8, to_bf16(1));
  pad_rows(2, 3, matrix.data(), 5, to.data(), 8);
  for (size_t r = 0; r < 2; ++r) {
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(to[r * 8 + i].bits, matrix[r * 5 + i].bits);
    EXPECT_EQ(to[r * 8 + 3].bits, 0);
    EXPECT_EQ(to[r * 8 + 4].bits, to_bf16(1).bits);
  }
}

}  // namespace
}  // namespace thinwire::tensor
