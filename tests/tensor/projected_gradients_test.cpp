#include "thinwire/tensor/storage/projected_gradients.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace thinwire::tensor {
namespace {

using testing::Each;
using testing::ElementsAre;

// A matrix [4, 6] projected on the left to [2, 6], and a norm that is not.
class Sink : public testing::Test {
 protected:
  Sink()
      : layout_({{"norm", {5}, TensorRole::kNorm, 0}, {"w", {4, 6}, TensorRole::kMatrix, 0}}),
        kept_({{"norm", {5}, TensorRole::kNorm, 0}, {"w", {2, 6}, TensorRole::kMatrix, 0}}),
        arena_(kept_),
        sink_(layout_, arena_,
              {[this](size_t tensor) { return tensor == 1 ? form_ : GradientForm{}; },
               [this](size_t tensor, std::span<const float> whole, std::span<float> projected) {
                 EXPECT_EQ(tensor, 1u);
                 projected_.emplace_back(whole.begin(), whole.end());
                 form_.bases = {basis_, nullptr, 2};
                 std::ranges::fill(projected, 1000.0f);
               },
               [this](int group) { ended_.push_back(group); }}) {
    form_.projected = true;
  }

  // A pass whose gradients are all `value`; what was opened for the matrix.
  OpenGradient pass(Pass place, float value) {
    sink_.begin(place, nullptr);
    write(sink_.open({0, 5}), 5, value);
    sink_.complete({0, 5});
    const GradientRange matrix = {layout_.offset(1), 24};
    const OpenGradient to = sink_.open(matrix);
    write(to, to.projection.rows(4) * to.projection.columns(6), value);
    sink_.complete(matrix);
    sink_.end_group(0);
    return to;
  }
  static void write(const OpenGradient& to, int64_t count, float value) {
    for (int64_t i = 0; i < count; ++i) {
      to.values[i] = (to.keep == 0 ? 0 : to.values[i]) + value;
    }
  }

  const float basis_[8] = {};
  const Layout layout_, kept_;
  Arena arena_;
  GradientForm form_;
  std::vector<std::vector<float>> projected_;
  std::vector<int> ended_;
  ProjectedGradients sink_;
};

TEST_F(Sink, PassesAddToProjectionsAndTheNextStepReplacesThem) {
  form_.bases = {basis_, nullptr, 2};
  const OpenGradient first = pass({.first = true, .last = false}, 1);
  EXPECT_EQ(first.projection.left, basis_);
  EXPECT_EQ(first.projection.right, nullptr);
  pass({.first = false, .last = true}, 2);
  EXPECT_THAT(arena_.tensor(0), Each(3));
  EXPECT_THAT(arena_.tensor(1), Each(3));
  EXPECT_EQ(arena_.all()[5], 0);  // the gap behind the norm
  pass({}, 5);
  EXPECT_THAT(arena_.tensor(1), Each(5));
  EXPECT_TRUE(projected_.empty());
}

TEST_F(Sink, AGradientThatRenewsIsWholeOverAllPassesAndProjectedOnce) {
  form_.bases = {basis_, nullptr, 2};
  form_.renewed = true;
  EXPECT_FALSE(pass({.first = true, .last = false}, 1).projection);
  EXPECT_TRUE(projected_.empty());
  pass({.first = false, .last = true}, 2);
  ASSERT_EQ(projected_.size(), 1u);
  EXPECT_EQ(projected_[0], std::vector<float>(24, 3));
  EXPECT_THAT(arena_.tensor(1), Each(1000));
}

TEST_F(Sink, TheFirstBasesComeFromTheFirstPass) {
  for (const bool due : {false, true}) {
    form_ = {.projected = true, .renewed = due};
    projected_.clear();
    EXPECT_FALSE(pass({.first = true, .last = false}, 1).projection);
    EXPECT_EQ(projected_.size(), 1u);
    EXPECT_TRUE(pass({.first = false, .last = true}, 2).projection);
    EXPECT_EQ(projected_.size(), 1u);
    EXPECT_THAT(arena_.tensor(1), Each(1002));
  }
}

TEST_F(Sink, TellsOfGroupsInTheLastPassAlone) {
  pass({.first = true, .last = false}, 1);
  EXPECT_TRUE(ended_.empty());
  pass({.first = false, .last = true}, 1);
  EXPECT_THAT(ended_, ElementsAre(0));
}

}  // namespace
}  // namespace thinwire::tensor
