#include "thinwire/tensor/storage/gradient_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace thinwire::tensor {
namespace {

using testing::ElementsAre;
using testing::Pair;

// Gaps behind the first two; the second and third are one product where they are neighbours.
std::vector<TensorSpec> specs() {
  return {{"embed", {3, 5}, TensorRole::kEmbedding},
          {"q", {4, 5}, TensorRole::kMatrix, 0},
          {"k", {4, 4}, TensorRole::kMatrix, 0},
          {"v", {2, 8}, TensorRole::kMatrix, 0}};
}

void write(const OpenGradient& to, int64_t count, float value) {
  for (int64_t i = 0; i < count; ++i) {
    to.values[i] = (to.keep == 0 ? 0 : to.values[i]) + value;
  }
}

TEST(WholeGradients, FirstPassReplacesLaterOnesAddAndARangeOpenedAgainAdds) {
  const Layout layout(specs());
  Arena arena(layout);
  std::ranges::fill(arena.all(), std::numeric_limits<float>::quiet_NaN());
  WholeGradients sink(arena);
  const auto pass = [&](Pass place) {
    sink.begin(place, nullptr);
    for (size_t i = 0; i < layout.size(); ++i) {
      const GradientRange range = {layout.offset(i), layout.specs()[i].count()};
      write(sink.open(range), range.count, 1);
      if (i == 0) write(sink.open(range), range.count, 10);
      sink.complete(range);
    }
  };
  pass({.first = true, .last = false});
  EXPECT_EQ(arena.tensor(0)[14], 11);
  EXPECT_EQ(arena.tensor(1)[19], 1);
  pass({.first = false, .last = true});
  EXPECT_EQ(arena.tensor(0)[0], 22);
  EXPECT_EQ(arena.tensor(3)[15], 2);
  for (const int64_t gap : {15, 36, 47}) EXPECT_EQ(arena.all()[static_cast<size_t>(gap)], 0) << gap;
}

TEST(WholeGradients, TellsOfGroupsInTheLastPassAlone) {
  const Layout layout(specs());
  Arena arena(layout);
  std::vector<int> ended;
  WholeGradients sink(arena, [&](int group) { ended.push_back(group); });
  sink.begin({.first = true, .last = false}, nullptr);
  sink.end_group(1);
  sink.begin({.first = false, .last = true}, nullptr);
  sink.end_group(7);
  EXPECT_THAT(ended, ElementsAre(7));
}

TEST(StreamedGradients, HandsOverEachTensorOfACompleteRangeOutOfTheSameMemory) {
  const Layout layout(specs());
  std::vector<std::pair<size_t, std::vector<float>>> taken;
  std::vector<int> ended;
  StreamedGradients sink(layout, {.largest = 32, .held = {}},
                         {[&](size_t tensor, std::span<const float> gradient) {
                            taken.emplace_back(
                                tensor, std::vector<float>(gradient.begin(), gradient.end()));
                          },
                          [&](int group) { ended.push_back(group); }});
  EXPECT_EQ(sink.bytes(), 32 * sizeof(float));
  sink.begin({}, nullptr);
  const GradientRange both = {layout.offset(2), 32};  // k and v
  const OpenGradient product = sink.open(both);
  EXPECT_EQ(product.keep, 0);
  for (int i = 0; i < 32; ++i) product.values[i] = static_cast<float>(i);
  EXPECT_TRUE(taken.empty());
  sink.complete(both);
  const GradientRange other = {layout.offset(1), 20};
  const OpenGradient next = sink.open(other);
  EXPECT_EQ(next.values, product.values);
  EXPECT_EQ(next.keep, 0);
  write(next, 20, 3);
  sink.complete(other);
  sink.end_group(0);
  ASSERT_EQ(taken.size(), 3u);
  EXPECT_EQ(taken[0].first, 2u);
  EXPECT_EQ(taken[0].second.size(), 16u);
  EXPECT_EQ(taken[0].second[15], 15);
  EXPECT_EQ(taken[1].first, 3u);
  EXPECT_EQ(taken[1].second[0], 16);
  EXPECT_EQ(taken[2].first, 1u);
  EXPECT_EQ(taken[2].second, std::vector<float>(20, 3));
  EXPECT_THAT(ended, ElementsAre(0));
}

TEST(StreamedGradients, HandsOverTheRowsOfASlab) {
  const Layout layout(specs());
  std::vector<std::pair<size_t, std::vector<float>>> taken;
  StreamedGradients sink(layout, {.largest = 10, .held = {}},
                         {[&](size_t tensor, std::span<const float> gradient) {
                            taken.emplace_back(
                                tensor, std::vector<float>(gradient.begin(), gradient.end()));
                          },
                          [](int) {}});
  sink.begin({}, nullptr);
  const int64_t first = layout.offset(1);
  float value = 0;
  for (const GradientRange& slab : {GradientRange{first, 10}, {first + 10, 10}, {0, 10}, {10, 5}}) {
    write(sink.open(slab), slab.count, ++value);
    sink.complete(slab);
  }
  EXPECT_THAT(taken,
              ElementsAre(Pair(1u, std::vector<float>(10, 1)), Pair(1u, std::vector<float>(10, 2)),
                          Pair(0u, std::vector<float>(10, 3)), Pair(0u, std::vector<float>(5, 4))));
}

// A tied embedding: the head's product first, the rows of the batch's tokens last.
TEST(StreamedGradients, HoldsWhatStaysOpenWhileOthersAreFormed) {
  const Layout layout(specs());
  std::vector<float> embedding;
  StreamedGradients sink(layout, {.largest = 20, .held = {0, 15}},
                         {[&](size_t tensor, std::span<const float> gradient) {
                            if (tensor == 0) embedding.assign(gradient.begin(), gradient.end());
                          },
                          [](int) {}});
  for (int step = 0; step < 2; ++step) {
    sink.begin({}, nullptr);
    write(sink.open({0, 15}), 15, 4);
    const GradientRange block = {layout.offset(1), 20};
    write(sink.open(block), 20, 100);
    sink.complete(block);
    const OpenGradient again = sink.open({0, 15});
    EXPECT_EQ(again.keep, 1);
    write(again, 15, 1);
    sink.complete({0, 15});
    EXPECT_EQ(embedding, std::vector<float>(15, 5)) << "step " << step;
  }
}

}  // namespace
}  // namespace thinwire::tensor
