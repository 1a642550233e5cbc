#include "thinwire/tensor/dct/dct.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <tuple>

#include "tests/tensor/dct_reference.h"
#include "tests/tensor/targets.h"
#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/tensor/dct/dct_tables.h"

namespace thinwire::tensor {
namespace {

using Values = std::vector<float>;

struct Sides {
  int rows, columns;
};

const Sides kSides[] = {{64, 64}, {43, 64}, {64, 43}, {16, 12}, {7, 15}, {1, 5},
                        {13, 1},  {1, 1},   {8, 4},   {2, 32},  {32, 2}, {3, 3},
                        {4, 1},   {40, 48}, {1, 64},  {96, 130}};

Values random_values(size_t count, uint64_t stream) {
  Rng rng(7, stream);
  Values values(count);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

// The definition, in double.
double basis(int n, int f, int x) {
  const double norm = std::sqrt((f == 0 ? 1.0 : 2.0) / n);
  return norm * std::cos(std::numbers::pi * (2 * x + 1) * f / (2.0 * n));
}

// Tiles of one shape.
class TileCase {
 protected:
  virtual Sides sides() const = 0;
  int h() const { return sides().rows; }
  int w() const { return sides().columns; }
  size_t size() const { return static_cast<size_t>(h() * w()); }

  // About one slot of `sparsity`.
  std::vector<uint16_t> random_slots(uint64_t sparsity) const {
    Rng rng(7, 4);
    std::vector<uint16_t> slots;
    for (size_t slot = 0; slot < size(); ++slot) {
      if (rng.below(sparsity) == 0) slots.push_back(static_cast<uint16_t>(slot));
    }
    return slots;
  }

  Values forward(const Values& tile) const {
    const TileDct dct(h(), w());
    Values out(size());
    Values workspace(static_cast<size_t>(dct.workspace_size()));
    dct.accumulate(tile.data(), w(), {}, out.data(), workspace.data());
    return out;
  }

  Values inverse(std::span<const uint16_t> slots, const Values& values) const {
    return inverse({slots, values.data()});
  }
  // With NaN where it may read but must not use anything.
  Values inverse_of_all(Values all) const {
    all.resize(size() + 15, std::numeric_limits<float>::quiet_NaN());
    return inverse({.all = all.data()});
  }

  Values inverse(const TileCoefficients& coefficients) const {
    const TileDct dct(h(), w());
    Values workspace(static_cast<size_t>(dct.workspace_size()),
                     std::numeric_limits<float>::quiet_NaN());
    const float* tile = dct.inverse(coefficients, workspace.data());
    Values out;
    for (int y = 0; y < h(); ++y) {
      const float* row = tile + y * dct.row_stride();
      out.insert(out.end(), row, row + w());
    }
    return out;
  }
};

std::string name_of(const Sides& sides) {
  return std::to_string(sides.rows) + "x" + std::to_string(sides.columns);
}

class Tiles : public testing::TestWithParam<Sides>, protected TileCase {
  Sides sides() const override { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Dct, Tiles, testing::ValuesIn(kSides),
                         [](const auto& sides) { return name_of(sides.param); });

class TilesOnTargets : public OnTarget<std::tuple<int64_t, Sides>>, protected TileCase {
  Sides sides() const override { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Dct, TilesOnTargets,
                         testing::Combine(testing::ValuesIn(compiled_targets()),
                                          testing::ValuesIn(kSides)),
                         [](const auto& of) {
                           return target_name(std::get<0>(of.param)) + "_" +
                                  name_of(std::get<1>(of.param));
                         });

TEST_P(Tiles, ForwardFollowsTheDefinition) {
  const Values tile = random_values(size(), 1);
  const Values coefficients = forward(tile);
  const int step = size() < 1000 ? 1 : 11;  // a sample of the large tiles' coefficients
  for (int a = 0; a < h(); a += step) {
    for (int b = 0; b < w(); b += step) {
      double expected = 0;
      for (int y = 0; y < h(); ++y) {
        for (int x = 0; x < w(); ++x) {
          expected += basis(h(), a, y) * basis(w(), b, x) * tile[static_cast<size_t>(y * w() + x)];
        }
      }
      EXPECT_NEAR(coefficients[static_cast<size_t>(b * h() + a)], expected, 3e-6) << a << "," << b;
    }
  }
}

TEST_P(Tiles, InverseOfAllCoefficientsGivesTheTileBack) {
  const Values tile = random_values(size(), 2);
  const Values coefficients = forward(tile);
  std::vector<uint16_t> slots(size());
  Values values(size());
  for (size_t slot = 0; slot < size(); ++slot) {
    const size_t a = slot / static_cast<size_t>(w());
    const size_t b = slot % static_cast<size_t>(w());
    slots[slot] = static_cast<uint16_t>(slot);
    values[slot] = coefficients[b * static_cast<size_t>(h()) + a];
  }
  EXPECT_THAT(inverse(slots, values), testing::Pointwise(testing::FloatNear(5e-6f), tile));
  EXPECT_THAT(inverse_of_all(coefficients), testing::Pointwise(testing::FloatNear(5e-6f), tile));
}

TEST_P(TilesOnTargets, HaveTheBitsOfTheReference) {
  const Values tile = random_values(size(), 3);
  const Values many = random_values(size(), 5);
  EXPECT_EQ(forward(tile), reference::tile_dct(tile, h(), w()));
  for (const uint64_t sparsity : {2, 5, 200}) {  // many slots, few, and hardly any
    const std::vector<uint16_t> slots = random_slots(sparsity);
    const Values values(many.begin(), many.begin() + std::ssize(slots));
    EXPECT_EQ(inverse(slots, values), reference::tile_idct(slots, values.data(), h(), w()))
        << "one of " << sparsity;
  }
  EXPECT_EQ(inverse_of_all(many), reference::tile_idct(many, h(), w()));
}

TEST_P(TilesOnTargets, StepByTheSignHasTheBitsOfTheReferenceAndTouchesNothingElse) {
  const SignStep step = {0.99f, 0.125f};
  const int64_t stride = w() + 3;
  const Values before = random_values(static_cast<size_t>(stride * h()), 11);
  const TileDct dct(h(), w());
  for (const uint64_t sparsity : {1, 2, 200}) {
    const std::vector<uint16_t> slots = random_slots(sparsity);
    const Values values = random_values(size() + 15, 12);
    const bool all = sparsity == 1;
    const Values update = all ? reference::tile_idct(std::span(values).first(size()), h(), w())
                              : reference::tile_idct(slots, values.data(), h(), w());
    Values expected = before;
    for (int y = 0; y < h(); ++y) {
      for (int x = 0; x < w(); ++x) {
        float& p = expected[static_cast<size_t>(y * stride + x)];
        const float by = update[static_cast<size_t>(y * w() + x)];
        p = p * step.shrink - (by > 0 ? step.length : by < 0 ? -step.length : 0.0f);
      }
    }
    Values params = before;
    Values workspace(static_cast<size_t>(dct.workspace_size()));
    const TileCoefficients sent = {slots, values.data(), all ? values.data() : nullptr};
    dct.step(sent, step, params.data(), stride, workspace.data());
    EXPECT_EQ(params, expected) << "one of " << sparsity;
  }
}

TEST_P(Tiles, StepWithoutSlotsOnlyShrinks) {
  const Values before = random_values(size(), 13);
  Values expected;
  for (const float value : before) expected.push_back(value * 0.5f);
  const TileDct dct(h(), w());
  Values workspace(static_cast<size_t>(dct.workspace_size()));
  Values params = before;
  dct.step({}, {0.5f, 1.0f}, params.data(), w(), workspace.data());
  EXPECT_EQ(params, expected);
}

TEST_P(Tiles, CoefficientsAreBlendedIntoTheMomentum) {
  const Values tile = random_values(size(), 9);
  const Values before = random_values(size(), 10);
  const Values coefficients = reference::tile_dct(tile, h(), w());
  Values expected;
  for (size_t i = 0; i < size(); ++i) {
    expected.push_back(0.75f * before[i] + 0.3f * coefficients[i]);
  }
  const TileDct dct(h(), w());
  Values workspace(static_cast<size_t>(dct.workspace_size()));
  Values momentum = before;
  // Neither leftovers in the workspace nor prefetching change anything.
  const PrefetchHints fetched = {tile.data(), before.data(), h() * w()};
  for (const PrefetchHints& prefetch : {PrefetchHints(), fetched}) {
    momentum = before;
    dct.accumulate(tile.data(), w(), {0.75f, 0.3f}, momentum.data(), workspace.data(), prefetch);
    EXPECT_EQ(momentum, expected);
    std::ranges::fill(workspace, std::numeric_limits<float>::infinity());
  }
}

TEST_P(Tiles, RowsMayLieApart) {
  const Values tile = random_values(size(), 6);
  const int64_t stride = w() + 21;
  Values wide(static_cast<size_t>(stride * h()), 1e30f);
  for (int y = 0; y < h(); ++y) std::copy_n(tile.data() + y * w(), w(), wide.data() + y * stride);
  const TileDct dct(h(), w());
  Values out(size());
  Values workspace(static_cast<size_t>(dct.workspace_size()));
  dct.accumulate(wide.data(), stride, {}, out.data(), workspace.data());
  EXPECT_EQ(out, forward(tile));
}

TEST(Dct, MiddleOfAnOddSideIgnoresOddFrequenciesExactly) {
  const TileDct dct(1, 13);
  Values workspace(static_cast<size_t>(dct.workspace_size()));
  const std::vector<uint16_t> slots = {1, 3, 7, 11};
  const Values values = random_values(4, 8);
  EXPECT_EQ(dct.inverse({slots, values.data()}, workspace.data())[6], 0.0f);
}

TEST(Dct, CosinesAreExactAtRightAnglesAndCloseElsewhere) {
  EXPECT_EQ(cos_pi(1, 2), 0.0);
  EXPECT_EQ(cos_pi(13 * 3, 13 * 2), 0.0);
  EXPECT_EQ(cos_pi(5, 1), -1.0);
  for (int64_t p = 0; p < 2000; ++p) {
    EXPECT_NEAR(cos_pi(p, 512), std::cos(std::numbers::pi * static_cast<double>(p) / 512), 4e-15);
  }
}

TEST(Dct, RefusesSidesItHasNoRoomFor) {
  EXPECT_THROW(TileDct(257, 1), Error);
  EXPECT_THROW(TileDct(1, 0), Error);
}

}  // namespace
}  // namespace thinwire::tensor
