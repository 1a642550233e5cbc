// DisTrO's kernels on tiles by a block of threads, as on a GPU, against one lane per tile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/tensor/block_lanes.h"
#include "tests/tensor/numbers.h"
#include "thinwire/tensor/dct/dct_tables.h"
#include "thinwire/tensor/kernels/portable_tiles.h"

namespace thinwire::tensor {
namespace {

struct Case {
  int rows;
  int columns;
  bool transformed;
  int kept;
};

constexpr int64_t kTiles = 4, kGridColumns = 2, kMembers = 2;

// Tensor, momentum and what two members took, and the update from it.
struct State {
  explicit State(const Case& one)
      : gradients(random_values<float>(kTiles * one.rows * one.columns, 1)),
        momentum(random_values<float>(kTiles * one.rows * one.columns, 2)),
        params(random_values<float>(kTiles * one.rows * one.columns, 3)),
        scratch(gradients.size()),
        senders(gradients.size()),
        counts(kMembers * kTiles),
        slots(static_cast<size_t>(kMembers * kTiles * one.kept)),
        values(slots.size()) {
    // Equal absolute values, of which some are taken, and a tile with fewer than `kept` nonzero.
    for (float& value : gradients) value = std::round(value * 2);
    for (float& value : momentum) value = std::round(value * 2);
    if (one.transformed) return;
    for (int row = 0; row < one.rows; ++row) {
      for (int column = 0; column < one.columns; ++column) {
        gradients[static_cast<size_t>(row * kGridColumns * one.columns + column)] = 0;
      }
    }
    std::fill_n(momentum.begin(), one.rows * one.columns, 0.0f);
    momentum[0] = 1;
  }

  std::vector<float> gradients, momentum, params, scratch, senders;
  std::vector<uint32_t> counts;
  std::vector<uint16_t> slots;
  std::vector<float> values;
};

template <typename Launch>
State results(const Case& one, const Launch& launch) {
  State state(one);
  const DctSide row_side(one.rows), column_side(one.columns);
  const auto rotations = portable_rotations();
  const auto portable = [&](const DctSide& side) {
    return PortableSide{side.n, side.norm.data(), side.basis.data(), padded(side.n),
                        rotations.data()};
  };
  const PortableTiles tiles = {portable(row_side), portable(column_side), kGridColumns,
                               one.transformed};
  for (int64_t member = 0; member < kMembers; ++member) {
    const int64_t first = member * kTiles * one.kept;
    launch(TakeFromTiles{tiles, 0.75f, 0.5f, one.kept, state.gradients.data(),
                         state.momentum.data(), state.scratch.data(),
                         state.counts.data() + member * kTiles, state.slots.data() + first,
                         state.values.data() + first});
  }
  for (const TileUpdate update : {TileUpdate::kSign, TileUpdate::kSubtract}) {
    launch(StepTiles{tiles, update, 0.5f, 0.25f, true, one.kept, kMembers, kTiles,
                     kTiles * one.kept, state.counts.data(), state.slots.data(),
                     state.values.data(), state.scratch.data(), state.senders.data(),
                     state.params.data()});
  }
  return state;
}

class TileLanes : public testing::TestWithParam<Case> {};

TEST_P(TileLanes, ABlockHasTheBitsOfOneLane) {
  const auto one = [](const auto& kernel) { by_one(kernel, kTiles); };
  const auto block = [](const auto& kernel) { by_block(kTileThreads, kernel, kTiles); };
  const State expected = results(GetParam(), one), got = results(GetParam(), block);
  EXPECT_EQ(got.counts, expected.counts);
  EXPECT_EQ(got.slots, expected.slots);
  EXPECT_EQ(got.values, expected.values);
  EXPECT_EQ(got.momentum, expected.momentum);
  EXPECT_EQ(got.params, expected.params);
  EXPECT_EQ(got.counts.back(), static_cast<uint32_t>(GetParam().kept));
  EXPECT_NE(got.params, State(GetParam()).params);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TileLanes,
                         testing::Values(Case{64, 64, true, 4}, Case{64, 64, true, 700},
                                         Case{32, 64, true, 5}, Case{64, 48, true, 5},
                                         Case{64, 64, false, 6}, Case{6, 10, true, 3}),
                         [](const auto& test) {
                           const Case& one = test.param;
                           return std::to_string(one.rows) + "x" + std::to_string(one.columns) +
                                  (one.transformed ? "Kept" : "DirectKept") +
                                  std::to_string(one.kept);
                         });

}  // namespace
}  // namespace thinwire::tensor
