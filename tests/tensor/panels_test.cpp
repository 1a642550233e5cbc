#include "thinwire/tensor/products/panels.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/tensor/numbers.h"
#include "tests/tensor/targets.h"

namespace thinwire::tensor {
namespace {

class Panels : public OnEachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Panels, testing::ValuesIn(compiled_targets()),
                         [](const auto& target) { return target_name(target.param); });

constexpr int64_t kGap = 3;

template <typename In>
In element(Transpose t, const std::vector<In>& matrix, int64_t ld, int64_t row, int64_t column,
           int64_t depth, int64_t at) {
  if (at == depth) return In();  // what fills up half a unit
  return matrix[static_cast<size_t>(t == Transpose::kNo ? row * ld + column : column * ld + row)];
}

template <typename In>
void expect_units_of_depth(int64_t width) {
  for (const Transpose t : {Transpose::kNo, Transpose::kYes}) {
    for (const int64_t depth : {1, 2, 13, 32}) {
      for (const int64_t columns : {1, 7, 64, 150}) {
        const int64_t ld = (t == Transpose::kNo ? columns : depth) + kGap;
        const auto matrix = random_values<In>(ld * (t == Transpose::kNo ? depth : columns), 1);
        const int64_t whole = whole_units<In>(depth), panel = whole * width + kGap;
        std::vector<In> packed(static_cast<size_t>((columns / width + 1) * panel));
        pack_panels(t, depth, columns, matrix.data(), ld, packed.data(), panel, width);
        for (int64_t i = 0; i < whole; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            const int64_t row = j / width * panel + i / kUnit<In> * kUnit<In> * width;
            const In got = packed[static_cast<size_t>(row + j % width * kUnit<In> + i % kUnit<In>)];
            ASSERT_EQ(widened(got), widened(element(t, matrix, ld, i, j, depth, i)))
                << i << ", " << j;
          }
        }
      }
    }
  }
}

TEST_P(Panels, HoldUnitsOfDepth) {
  for (const int64_t width : {kPanelColumns / 2, kPanelColumns}) {
    expect_units_of_depth<float>(width);
    expect_units_of_depth<Bf16>(width);
  }
}

TEST_P(Panels, OfPairsBecomeRowsAgain) {
  constexpr int64_t kStride = 40;
  for (const int64_t depth : {1, 2, 13, 32}) {
    for (const int64_t columns : {1, 7, 64}) {
      const auto matrix = random_values<Bf16>(depth * columns, 1);
      const int64_t pairs = (depth + 1) / 2;
      std::vector<Bf16> packed(static_cast<size_t>(2 * pairs * kPanelColumns));
      pack_panels(Transpose::kNo, depth, columns, matrix.data(), columns, packed.data(), 0);
      std::vector<Bf16> to(static_cast<size_t>(columns * kStride));
      unpack_pairs(pairs, columns, packed.data(), 2 * kPanelColumns, to.data(), kStride);
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
