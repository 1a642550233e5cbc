#include "thinwire/codec/top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

using Values = std::vector<float>;

struct Taken {
  std::vector<uint16_t> slots;
  Values values;
  Values left;
  bool operator==(const Taken&) const = default;
};

Taken take(TopK& top_k, Values tile, int kept, uint32_t& guess) {
  Taken taken;
  taken.slots.resize(static_cast<size_t>(kept));
  taken.values.resize(static_cast<size_t>(kept));
  const int count = top_k.take(tile.data(), taken.slots.data(), taken.values.data(), guess);
  taken.slots.resize(static_cast<size_t>(count));
  taken.values.resize(static_cast<size_t>(count));
  taken.left = tile;
  return taken;
}

// By sorting all slots.
Taken reference(const Values& tile, int rows, int columns, int kept) {
  const auto value = [&](int slot) {
    return tile[static_cast<size_t>(slot % columns * rows + slot / columns)];
  };
  std::vector<int> order(tile.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return std::abs(value(a)) > std::abs(value(b)); });
  order.resize(static_cast<size_t>(kept));
  std::erase_if(order, [&](int slot) { return value(slot) == 0; });
  std::sort(order.begin(), order.end());
  Taken taken;
  taken.left = tile;
  for (const int slot : order) {
    taken.slots.push_back(static_cast<uint16_t>(slot));
    taken.values.push_back(value(slot));
    taken.left[static_cast<size_t>(slot % columns * rows + slot / columns)] = 0;
  }
  return taken;
}

struct Case {
  int rows, columns, kept;
};

class TopKOf : public testing::TestWithParam<Case> {
 protected:
  size_t size() const { return static_cast<size_t>(GetParam().rows * GetParam().columns); }

  void expect_reference(const Values& tile) const {
    const auto [rows, columns, kept] = GetParam();
    const Taken expected = reference(tile, rows, columns, kept);
    for (int64_t targets = hwy::SupportedTargets(); targets != 0; targets &= targets - 1) {
      hwy::SetSupportedTargetsForTest(targets & -targets);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      TopK top_k(rows, columns, kept);
      const char* name = hwy::TargetName(targets & -targets);
      uint32_t guess = 0;
      EXPECT_TRUE(take(top_k, tile, kept, guess) == expected) << name;
      EXPECT_TRUE(take(top_k, tile, kept, guess) == expected) << name << ", by its own guess";
      for (const float wrong : {1e-45f, 0.5f, 2.0f, 2.5f, 1e30f}) {
        guess = std::bit_cast<uint32_t>(wrong);
        EXPECT_TRUE(take(top_k, tile, kept, guess) == expected) << name << ", guess " << wrong;
      }
    }
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

INSTANTIATE_TEST_SUITE_P(Shapes, TopKOf,
                         testing::Values(Case{64, 64, 32}, Case{64, 64, 1}, Case{43, 64, 22},
                                         Case{7, 15, 3}, Case{1, 1, 1}, Case{1, 5, 5},
                                         Case{16, 12, 191}, Case{3, 130, 20}, Case{256, 256, 7},
                                         Case{8, 8, 60}));

TEST_P(TopKOf, TakesTheLargestOfRandomTiles) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Rng rng(seed, 1);
    Values tile(size());
    for (float& value : tile) value = static_cast<float>(rng.normal());
    expect_reference(tile);
  }
}

TEST_P(TopKOf, TiesGoToTheLowestSlot) {
  Rng rng(3, 1);
  Values tile(size());
  for (float& value : tile) value = static_cast<float>(rng.below(3)) - 1;
  expect_reference(tile);
}

TEST_P(TopKOf, ConstantAndZeroTilesAreNothingSpecial) {
  expect_reference(Values(size(), -2.5f));
  expect_reference(Values(size(), 0.0f));
  expect_reference(Values(size(), -0.0f));
  Values one(size(), 0.0f);
  one.back() = 1e-45f;
  expect_reference(one);
}

TEST_P(TopKOf, EnergyInOneRowOrColumnIsFound) {
  Rng rng(5, 1);
  const auto rows = static_cast<size_t>(GetParam().rows);
  Values row(size()), column(size());
  for (size_t i = 0; i < size(); ++i) {
    row[i] = static_cast<float>(rng.normal()) * (i % rows == 0 ? 1000.0f : 0.1f);
    column[i] = static_cast<float>(rng.normal()) * (i / rows == 0 ? 1000.0f : 0.1f);
  }
  expect_reference(row);
  expect_reference(column);
}

}  // namespace
}  // namespace thinwire::codec
