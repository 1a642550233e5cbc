// What every backend promises of gradients that are handed over one at a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// Weights become NaN as soon as their gradient is handed over, yet the loss and all gradients have
// the bits that they have when taken whole; each tensor comes once, with its group, in the groups'
// order. The weights are lost.
template <typename Tiny>  // TinyModel, or with the same members
inline void expect_streamed_gradients_are_the_whole_ones(Tiny& tiny, Model& model,
                                                         std::span<const int32_t> tokens,
                                                         int64_t rows) {
  const double loss =
      model.loss_and_gradients(tokens, rows, 0.5f, tiny.gradients, Gradients::kReplace);
  std::set<size_t> taken;
  std::vector<int> ended;
  const auto take = [&](size_t tensor, std::span<const float> gradient) {
    EXPECT_TRUE(taken.insert(tensor).second) << tensor;
    EXPECT_TRUE(std::ranges::equal(gradient, std::as_const(tiny.gradients).tensor(tensor)))
        << tiny.layout.specs()[tensor].name;
    std::ranges::fill(tiny.params.tensor(tensor), std::numeric_limits<float>::quiet_NaN());
    model.refresh();
  };
  const auto groups = gradient_groups(tiny.layout.specs());
  const auto end_group = [&](int group) {
    ASSERT_LT(ended.size(), groups.size());
    const GradientGroup& expected = groups[ended.size()];
    EXPECT_EQ(group, expected.number);
    for (const size_t tensor : expected.tensors) EXPECT_TRUE(taken.contains(tensor)) << tensor;
    ended.push_back(group);
  };
  tensor::StreamedGradients sink(tiny.layout, model.stream_size(), {take, end_group});
  EXPECT_EQ(model.loss_and_gradients(tokens, rows, 0.5f, sink, {}), loss);
  EXPECT_EQ(taken.size(), tiny.layout.size());
  EXPECT_EQ(ended.size(), groups.size());
}

}  // namespace thinwire::model
