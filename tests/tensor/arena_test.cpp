#include "thinwire/tensor/storage/arena.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/names.h"
#include "thinwire/base/rng.h"
#include "thinwire/base/threads.h"

namespace thinwire::tensor {
namespace {

using testing::Each;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::ThrowsMessage;

Layout three_tensors() {
  return Layout({{"a", {3, 5}, TensorRole::kMatrix, 0},
                 {"b", {16}, TensorRole::kNorm, 0},
                 {"c", {17}, TensorRole::kNorm, -1}});
}

TEST(Layout, TensorsBeginAtLines) {
  const Layout layout = three_tensors();
  EXPECT_EQ(layout.offset(0), 0);
  EXPECT_EQ(layout.offset(1), 16);
  EXPECT_EQ(layout.offset(2), 32);
  EXPECT_EQ(layout.total(), 64);
}

TEST(Layout, FindsByName) {
  const Layout layout = three_tensors();
  EXPECT_EQ(layout.find("c"), 2u);
  EXPECT_THAT([&] { layout.find("d"); }, ThrowsMessage<Error>(HasSubstr("no tensor named 'd'")));
}

// Looking through all names for each would take minutes.
TEST(Layout, FindsEachOfManyTensors) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 200'000; ++i) {
    specs.push_back(
        {fmt::format("model.layers.{}.self_attn.q_proj.weight", i * 7919 % 200'000), {1}});
  }
  const Layout layout(specs);
  for (size_t i = 0; i < specs.size(); ++i) ASSERT_EQ(layout.index_of(specs[i].name), i);
  EXPECT_EQ(layout.index_of("model.layers.200000.self_attn.q_proj.weight"), std::nullopt);
  EXPECT_EQ(layout.index_of(""), std::nullopt);
}

TEST(Layout, AJoinedOneFindsTensorsOfBoth) {
  const Layout joined = Layout::joined(three_tensors(), Layout({{"A", {3}}, {"z", {4}}}));
  EXPECT_EQ(joined.index_of("A"), 3u);
  EXPECT_EQ(joined.index_of("z"), 4u);
  EXPECT_EQ(joined.index_of("a"), 0u);
  EXPECT_EQ(joined.offset(joined.find("z")), kFrozenOffset + 16);
}

TEST(Arena, IsAlignedAndZero) {
  const Layout layout = three_tensors();
  const Arena arena(layout);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.all().data()) % 64, 0u);
  EXPECT_THAT(arena.all(), Each(0.0f));
}

TEST(Arena, TensorsAreTheirPartOfTheWhole) {
  const Layout layout = three_tensors();
  Arena arena(layout);
  for (float& value : arena.tensor(1)) value = 2;
  EXPECT_EQ(arena.all()[15], 0);
  EXPECT_EQ(arena.all()[16], 2);
  EXPECT_EQ(arena.all()[31], 2);
  EXPECT_EQ(arena.all()[32], 0);
  EXPECT_EQ(arena.tensor(0).size(), 15u);
  EXPECT_EQ(arena.view(0).shape, (Shape{3, 5}));
  EXPECT_EQ(arena.view(2).data, arena.tensor(2).data());
}

// The values of one stream, whoever draws them.
TEST(Arena, IsDrawnWithTheSameBitsOnAnyNumberOfThreads) {
  const Layout layout({{"a", {3}}, {"w", {300, 50}, TensorRole::kMatrix}});
  Rng rng(derive_seed(9, "w"), 0);
  std::vector<float> expected(300 * 50);
  for (float& value : expected) value = static_cast<float>(0.25 + 0.5 * rng.normal());
  for (const int count : {1, 2, 3}) {
    ThreadPool threads(count);
    Arena arena(layout);
    draw_normal(arena, 1, 9, 0.25, 0.5, threads);
    EXPECT_THAT(arena.tensor(1), ElementsAreArray(expected)) << count;
    EXPECT_THAT(arena.tensor(0), Each(0.0f));
  }
}

TEST(Arena, OfBf16HoldsWhatItIsFilledWithRoundedToNearest) {
  const Layout layout = three_tensors();
  Arena exact(layout), arena(layout, WeightFormat::kBf16);
  EXPECT_EQ(arena.bytes().size(), 128u);
  EXPECT_THAT(arena.bytes(), Each(0));
  for (Arena* to : {&exact, &arena}) {
    to->fill_tensor(1, [](std::span<float> values) { std::ranges::fill(values, 1.001f); });
  }
  EXPECT_EQ(exact.bytes().size(), 256u);
  EXPECT_EQ(exact.all()[16], 1.001f);
  std::vector<float> values(18);
  arena.read(15, values);
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[1], 1);
  EXPECT_EQ(values[16], 1);
  EXPECT_EQ(values[17], 0);

  Arena copy(layout, WeightFormat::kBf16), wide(layout);
  copy.assign(exact);
  EXPECT_TRUE(std::ranges::equal(copy.bytes(), arena.bytes()));
  wide.assign(copy);
  EXPECT_EQ(wide.all()[31], 1);
  copy.assign(arena);
  EXPECT_TRUE(std::ranges::equal(copy.bytes(), arena.bytes()));
}

class EncodedArena : public testing::TestWithParam<WeightFormat> {};

TEST_P(EncodedArena, EncodesMatricesAndRoundsTheRest) {
  const Layout layout({{"embedding", {7, 3}, TensorRole::kEmbedding},
                       {"first", {3, 50}, TensorRole::kMatrix, 0},
                       {"second", {2, 50}, TensorRole::kMatrix, 0},
                       {"norm", {50}, TensorRole::kNorm, 0}});
  Arena exact(layout), arena(layout, GetParam());
  Rng rng(1, 2);
  for (size_t i = 0; i < layout.size(); ++i) {
    for (float& value : exact.tensor(i)) value = static_cast<float>(rng.normal());
  }
  EXPECT_THAT(arena.bytes(), Each(0));
  EXPECT_EQ(arena.bytes().size(), size_t(2 * 32 + weight_bytes(GetParam(), 150) +
                                         weight_bytes(GetParam(), 100) + 2 * 64));
  arena.assign(exact);
  for (const size_t i : {size_t{0}, size_t{3}}) {
    const auto values = std::as_const(exact).tensor(i);
    for (size_t k = 0; k < values.size(); ++k) {
      const auto at = static_cast<int64_t>(k);
      ASSERT_EQ(arena.bf16_at(layout.offset(i) + at)->bits, to_bf16(values[k]).bits);
    }
  }
  // The two matrices as one, and the values of each from anywhere.
  const auto matrices = arena.packed().matrices_at(layout.offset(1), 5);
  ASSERT_EQ(matrices.size(), 2u);
  EXPECT_TRUE(arena.packed().matrices_at(layout.offset(3), 1).empty());
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const EncodedMatrix& matrix = matrices[i];
    std::vector<float> decoded(static_cast<size_t>(matrix.rows * 50)), read(decoded.size() - 30);
    decode(matrix, 0, matrix.rows, 0, 50, decoded.data());
    arena.read(layout.offset(i + 1) + 30, read);
    EXPECT_THAT(read, ElementsAreArray(std::span(decoded).subspan(30)));
    EXPECT_LT(std::abs(decoded[5] - exact.tensor(i + 1)[5]), 1);
  }
  Arena copy(layout, GetParam()), wide(layout);
  copy.assign(arena);
  EXPECT_TRUE(std::ranges::equal(copy.bytes(), arena.bytes()));
  wide.assign(arena);
  std::vector<float> norm(50);
  arena.read(layout.offset(3), norm);
  EXPECT_THAT(wide.tensor(3), ElementsAreArray(norm));
}

TEST_P(EncodedArena, TakesTheValuesOfOneInAnotherFormat) {
  const Layout layout(
      {{"first", {3, 50}, TensorRole::kMatrix, 0}, {"norm", {50}, TensorRole::kNorm, 0}});
  const WeightFormat other =
      GetParam() == WeightFormat::kNf4 ? WeightFormat::kInt8 : WeightFormat::kNf4;
  Arena exact(layout), from(layout, other), arena(layout, GetParam()), expected(layout, GetParam());
  Rng rng(1, 3);
  for (size_t i = 0; i < layout.size(); ++i) {
    for (float& value : exact.tensor(i)) value = static_cast<float>(rng.normal());
  }
  from.assign(exact);
  exact.assign(from);
  expected.assign(exact);
  arena.assign(from);
  EXPECT_TRUE(std::ranges::equal(arena.bytes(), expected.bytes()));
}

INSTANTIATE_TEST_SUITE_P(Formats, EncodedArena,
                         testing::Values(WeightFormat::kNf4, WeightFormat::kInt8),
                         [](const auto& one) { return std::string(name_of(one.param)); });

}  // namespace
}  // namespace thinwire::tensor
