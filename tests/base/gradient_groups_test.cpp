#include "thinwire/base/gradient_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace thinwire
