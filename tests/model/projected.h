// What every backend promises of gradients that are formed as projections.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/model/tiny_model.h"
#include "thinwire/base/rng.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

// Random bases of a matrix: on the left, on the right, or on both sides, by turns.
struct RandomBases {
  RandomBases(int64_t outputs, int64_t inputs, size_t turn) {
    Rng rng(turn, 5);
    const auto draw = [&](std::vector<float>& rows, int64_t width) {
      rows.resize(static_cast<size_t>(kRank * width));
      for (float& value : rows) value = static_cast<float>(rng.normal()) / 8;
    };
    if (turn % 3 != 1) draw(left, outputs);
    if (turn % 3 != 0) draw(right, inputs);
  }
  tensor::Projection projection() const {
    return {left.empty() ? nullptr : left.data(), right.empty() ? nullptr : right.data(), kRank};
  }
  // P^T G Q, in float64.
  std::vector<float> of(std::span<const float> gradient, int64_t outputs, int64_t inputs) const {
    std::vector<double> half;
    const int64_t rows = left.empty() ? outputs : kRank;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < inputs; ++i) {
        double sum = left.empty() ? double(gradient[size_t(row * inputs + i)]) : 0;
        for (int64_t o = 0; o < (left.empty() ? 0 : outputs); ++o) {
          sum += double(left[size_t(row * outputs + o)]) * gradient[size_t(o * inputs + i)];
        }
        half.push_back(sum);
      }
    }
    if (right.empty()) return {half.begin(), half.end()};
    std::vector<float> projected;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < kRank; ++column) {
        double sum = 0;
        for (int64_t i = 0; i < inputs; ++i) {
          sum += half[size_t(row * inputs + i)] * double(right[size_t(column * inputs + i)]);
        }
        projected.push_back(float(sum));
      }
    }
    return projected;
  }

  static constexpr int64_t kRank = 5;
  std::vector<float> left, right;
};

// Every matrix of the blocks is projected; the rest comes whole.
inline void expect_projected_gradients_are_projections_of_the_whole_ones(
    TinyModel& tiny, Model& model, std::span<const int32_t> tokens, int64_t rows,
    double tolerance) {
  const double loss =
      model.loss_and_gradients(tokens, rows, 0.5f, tiny.gradients, Gradients::kReplace);
  std::vector<RandomBases> bases;
  for (size_t t = 0; t < tiny.layout.size(); ++t) {
    const TensorSpec& spec = tiny.layout.specs()[t];
    bases.emplace_back(spec.count() / spec.shape.back(), spec.shape.back(), t);
  }
  const auto projected = [&](size_t t) { return tiny.layout.specs()[t].is_hidden_matrix(); };
  size_t taken = 0;
  const auto take = [&](size_t t, std::span<const float> gradient) {
    ++taken;
    const TensorSpec& spec = tiny.layout.specs()[t];
    const std::span<const float> whole = std::as_const(tiny.gradients).tensor(t);
    if (!projected(t)) {
      EXPECT_TRUE(std::ranges::equal(gradient, whole)) << spec.name;
      return;
    }
    const int64_t inputs = spec.shape.back();
    const std::vector<float> expected = bases[t].of(whole, spec.count() / inputs, inputs);
    ASSERT_EQ(gradient.size(), expected.size()) << spec.name;
    EXPECT_LT(relative_error(gradient, expected), tolerance) << spec.name;
  };
  const auto form = [&](size_t t) {
    tensor::GradientForm one;
    if (projected(t)) one = {.projected = true, .bases = bases[t].projection()};
    return one;
  };
  tensor::StreamedGradients sink(tiny.layout, model.stream_size(), {take, [](int) {}, form});
  EXPECT_EQ(model.loss_and_gradients(tokens, rows, 0.5f, sink, {}), loss);
  EXPECT_EQ(taken, tiny.layout.size());
}

}  // namespace thinwire::model
