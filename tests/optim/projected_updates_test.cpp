// Optimizers that are given projections, against themselves with whole gradients.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/optim/projection.h"
#include "tests/optim/random_values.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
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
      {"optim.method=galore", "galore.rank=4", "galore.refresh=3", "galore.basis=seeded"},
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

// So they agree on all workers, whenever a worker first needs them and whatever it has seen.
TEST(SeededBases, AreAFunctionOfTheStep) {
  const tensor::Layout layout(specs());
  for (const char* bases : {"optim.bases=fp32", "optim.bases=8bit"}) {
    const std::vector<std::string> fields = {"optim.method=galore", "galore.basis=seeded",
                                             "galore.refresh=3", bases};
    const auto optimizer = make_optimizer(options_of(fields, true), layout);
    const auto values = [](Optimizer& one, uint64_t step) {
      const tensor::Projection held = one.gradient_form(0, step).bases;
      return std::vector<float>(held.left, held.left + held.rank * 12);
    };
    tensor::Arena params(layout);
    ThreadPool threads(1);
    std::vector<float> last;
    for (uint64_t step = 0; step < 10; ++step) {
      const std::vector<float> now = values(*optimizer, step);
      EXPECT_EQ(values(*make_optimizer(options_of(fields, true), layout), step), now) << step;
      EXPECT_EQ(now == last, step > 0 && !optimizer->redrawn(0, step - 1)) << step;
      last = now;
      optimizer->update(tensor_update(params, 0, random_values(3 * 20, step)), {step, 0.01f},
                        threads);
    }
  }
}

TEST(SeededBases, AreDrawnAnewInDueStepsOfProjectedMatricesOnly) {
  std::vector<TensorSpec> tensors = specs();
  tensors[3].name = "model.layers.0.self_attn.o_proj.weight";
  const tensor::Layout layout(tensors);
  const auto optimizer =
      make_optimizer(options_of({"optim.method=galore", "galore.basis=seeded", "galore.refresh=3",
                                 "galore.ranks=[\"*.o_proj.*=0\"]"},
                                true),
                     layout);
  for (uint64_t step = 0; step < 9; ++step) {
    EXPECT_EQ(optimizer->redrawn(0, step), step > 0 && step % 3 == 0) << step;
    EXPECT_FALSE(optimizer->redrawn(1, step) || optimizer->redrawn(3, step)) << step;
    EXPECT_FALSE(optimizer->gradient_form(0, step).renewed);
    EXPECT_TRUE(optimizer->gradient_form(0, step).in_pass());
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
