#include "thinwire/base/gradient_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

namespace thinwire {
namespace {

using testing::ElementsAre;

TEST(GradientGroups, GoFromTheHeadOverTheBlocksToTheEmbedding) {
  const std::vector<TensorSpec> tensors = {
      {"embed", {8, 4}, TensorRole::kEmbedding}, {"norm.0", {4}, TensorRole::kNorm, 0},
      {"w.0", {4, 4}, TensorRole::kMatrix, 0},   {"w.1", {4, 4}, TensorRole::kMatrix, 1},
      {"norm", {4}, TensorRole::kNorm},          {"head", {8, 4}, TensorRole::kHead}};
  const std::vector<GradientGroup> groups = gradient_groups(tensors);
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0].number, 2);
  EXPECT_THAT(groups[0].tensors, ElementsAre(4, 5));
  EXPECT_EQ(groups[1].number, 1);
  EXPECT_THAT(groups[1].tensors, ElementsAre(3));
  EXPECT_THAT(groups[2].tensors, ElementsAre(1, 2));
  EXPECT_EQ(groups[3].number, kEmbeddingGroup);
  EXPECT_THAT(groups[3].tensors, ElementsAre(0));
}

TEST(GradientGroups, LeaveOutWhatAModelLacks) {
  const std::vector<TensorSpec> tensors = {{"w", {4, 4}, TensorRole::kMatrix, 0}};
  const std::vector<GradientGroup> groups = gradient_groups(tensors);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].number, 0);
}

// The norm behind the embedding belongs to the group of the head, so that group has two ranges.
TEST(GroupRanges, AreTheArenaInTheOrderOfCompletion) {
  const std::vector<TensorSpec> tensors = {
      {"embed", {8, 4}, TensorRole::kEmbedding}, {"norm", {4}, TensorRole::kNorm},
      {"norm.0", {4}, TensorRole::kNorm, 0},     {"w.0", {5, 4}, TensorRole::kMatrix, 0},
      {"head", {8, 4}, TensorRole::kHead},       {"bias", {8}, TensorRole::kBias}};
  const std::vector<GroupRange> ranges = group_ranges(tensors);
  const auto parts = [&] {
    std::vector<std::tuple<int, int64_t, int64_t>> all;
    for (const GroupRange& one : ranges) all.emplace_back(one.group, one.offset, one.count);
    return all;
  };
  EXPECT_THAT(parts(), ElementsAre(std::tuple(1, 32, 16), std::tuple(1, 96, 48),
                                   std::tuple(0, 48, 48), std::tuple(kEmbeddingGroup, 0, 32)));
}

}  // namespace
}  // namespace thinwire
