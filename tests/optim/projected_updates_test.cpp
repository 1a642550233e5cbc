// Optimizers that are given projections, against themselves with whole gradients.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/optim/random_values.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {
namespace {

using testing::Each;
using testing::FloatNear;
using testing::Pointwise;

std::vector<TensorSpec> specs() {
  return {{"wide", {12, 20}, TensorRole::kMatrix, 0},
          {"norm", {9}, TensorRole::kNorm, 0},
          {"tall", {30, 14}, TensorRole::kMatrix, 1},
          {"square", {16, 16}, TensorRole::kMatrix, 1}};
}

method::OptimizerOptions options_of(std::vector<std::string> recipe, bool projected) {
  if (projected) recipe.emplace_back("optim.gradients=projected");
  return method::optimizer_options(method::load_recipe({}, recipe));
}

// P^T G Q, as a backward pass forms it.
std::vector<float> projection(const tensor::Projection& bases, std::span<const float> gradient,
                              int64_t rows, int64_t columns) {
  const int64_t out_rows = bases.rows(rows), out_columns = bases.columns(columns);
  std::vector<float> out;
  for (int64_t i = 0; i < out_rows; ++i) {
    for (int64_t j = 0; j < out_columns; ++j) {
      double sum = 0;
      for (int64_t row = 0; row < rows; ++row) {
        const double left =
            bases.left == nullptr ? double(row == i) : double(bases.left[i * rows + row]);
        for (int64_t column = 0; left != 0 && column < columns; ++column) {
          const double right = bases.right == nullptr ? double(column == j)
                                                      : double(bases.right[j * columns + column]);
          sum += left * gradient[size_t(row * columns + column)] * right;
        }
      }
      out.push_back(float(sum));
    }
  }
  return out;
}

// The weights after some steps from zero.
std::vector<float> trained(const std::vector<std::string>& recipe, bool projected) {
  const tensor::Layout layout(specs());
  const method::OptimizerOptions options = options_of(recipe, projected);
  const auto optimizer = make_optimizer(options, layout);
  ThreadPool threads(1);
  tensor::Arena params(layout);
  for (uint64_t number = 0; number < 9; ++number) {
    for (size_t t = 0; t < layout.size(); ++t) {
      const TensorSpec& spec = layout.specs()[t];
      std::vector<float> gradient = random_values(spec.count(), 10 * number + t);
      const tensor::GradientForm form = optimizer->gradient_form(t, number);
      EXPECT_EQ(form.projected, projected && spec.is_hidden_matrix());
      if (form.projected) {
        std::vector<float> core(size_t(element_count(method::gradient_shape(options, spec))));
        if (form.in_pass()) {
          const int64_t columns = spec.shape.back();
          core = projection(form.bases, gradient, spec.count() / columns, columns);
        } else {
          optimizer->project(t, number, gradient, core, threads, {});
        }
        gradient = core;
      }
      optimizer->update(tensor_update(params, t, gradient), {number, 0.01f, 0.1f}, threads);
    }
  }
  return {params.all().begin(), params.all().end()};
}

TEST(ProjectedUpdates, AreThoseOfWholeGradientsToRoundingOverRenewals) {
  const std::vector<std::vector<std::string>> recipes = {
      {"optim.method=galore", "galore.rank=4", "galore.refresh=3"},
      {"optim.method=galore", "galore.rank=4", "galore.refresh=1", "galore.moments=rotate"},
      {"optim.method=natural_galore", "natural_galore.rank=4", "natural_galore.refresh=3",
       "natural_galore.history=3"},
      {"optim.method=natural_galore", "natural_galore.rank=4", "natural_galore.refresh=4",
       "natural_galore.sides=two", "natural_galore.moments=rotate", "natural_galore.history=3",
       "natural_galore.damping_is=relative"}};
  for (std::vector<std::string> recipe : recipes) {
    // Adam divides by what may be next to nothing.
    recipe.emplace_back("adamw.eps=1e-4");
    EXPECT_THAT(trained(recipe, true), Pointwise(FloatNear(2e-5f), trained(recipe, false)))
        << fmt::format("{}", fmt::join(recipe, " "));
  }
}

TEST(ProjectedUpdates, AreWholeInTheStepsInWhichBasesAreRenewed) {
  const tensor::Layout layout(specs());
  const auto optimizer =
      make_optimizer(options_of({"optim.method=galore", "galore.refresh=3"}, true), layout);
  ThreadPool threads(1);
  std::vector<float> core(3 * 20);
  EXPECT_FALSE(optimizer->gradient_form(0, 0).bases);
  optimizer->project(0, 0, random_values(240, 1), core, threads, {});
  for (uint64_t step = 1; step < 9; ++step) {
    const tensor::GradientForm form = optimizer->gradient_form(0, step);
    EXPECT_TRUE(form.bases);
    EXPECT_EQ(form.renewed, step % 3 == 0) << step;
    EXPECT_EQ(form.in_pass().rank, step % 3 == 0 ? 0 : 3);
  }
}

TEST(Optimizers, ResetToTheStateOfANewRun) {
  const tensor::Layout layout(specs());
  for (const method::OptimizerSpec* spec : method::all_optimizers()) {
    const auto optimizer =
        make_optimizer(options_of({fmt::format("optim.method={}", spec->name)}, false), layout);
    const auto values = [&] {
      std::vector<std::vector<float>> all;
      for (const OptimizerState& part : optimizer->state()) {
        all.emplace_back(part.values.begin(), part.values.end());
      }
      return all;
    };
    const auto fresh = values();
    tensor::Arena params(layout);
    ThreadPool threads(1);
    optimizer->update(tensor_update(params, 0, random_values(240, 3)), {0, 0.01f}, threads);
    EXPECT_TRUE(spec->name == "scale" || values() != fresh) << spec->name;
    optimizer->reset();
    EXPECT_EQ(values(), fresh) << spec->name;
  }
}

}  // namespace
}  // namespace thinwire::optim
