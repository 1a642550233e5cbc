#include "thinwire/optim/low_rank.h"

#include <algorithm>

#include "thinwire/base/rng.h"
#include "thinwire/base/simd.h"
#include "thinwire/optim/adamw.h"

namespace thinwire::optim {
namespace {

using method::LowRankShape;

std::vector<LowRankShape> shapes_of(const tensor::Layout& layout,
                                    const method::LowRankFields& fields, method::Sides sides) {
  std::vector<LowRankShape> shapes;
  for (const TensorSpec& spec : layout.specs()) {
    shapes.push_back(method::low_rank_shape(fields, spec, sides));
  }
  return shapes;
}

THINWIRE_CLONES void step_along(float* __restrict p, const float* __restrict direction,
                                int64_t count, float shrink, float rate) {
  for (int64_t i = 0; i < count; ++i) p[i] = p[i] * shrink - rate * direction[i];
}

std::span<float> room(std::vector<float>& buffer, int64_t count) {
  buffer.resize(std::max(buffer.size(), static_cast<size_t>(count)));
  return std::span(buffer).first(static_cast<size_t>(count));
}

}  // namespace

LowRankOptimizer::LowRankOptimizer(const method::OptimizerOptions& options,
                                   const tensor::Layout& layout,
                                   const method::LowRankFields& fields, method::Sides sides)
    : Optimizer(options, layout),
      shapes_(shapes_of(layout, fields, sides)),
      plan_(fields, shapes_) {}

void LowRankOptimizer::update(const TensorUpdate& tensor, const OptimizerStep& step,
                              ThreadPool& threads) {
  const LowRankShape& shape = shapes_[tensor.tensor];
  if (shape.rank > 0) return update_matrix(tensor, shape, step, threads);
  adamw_update(options(), spec(tensor.tensor).decays(), tensor, piece(tensor.tensor, 0),
               piece(tensor.tensor, 1), step, threads);
}

Bases LowRankOptimizer::refresh(const TensorUpdate& tensor, const LowRankShape& shape,
                                const Bases& bases, const OptimizerStep& step,
                                ThreadPool& threads) {
  const bool present = bases.present();
  if (present && !due(tensor.tensor, step)) return {};
  left_before_.assign(bases.left.begin(), bases.left.end());
  right_before_.assign(bases.right.begin(), bases.right.end());
  subspace_.refresh(shape, bases, tensor.gradient, seed(tensor.tensor), threads);
  return present ? Bases{left_before_, right_before_} : Bases{};
}

void LowRankOptimizer::rotate_moments(const LowRankShape& shape, const Bases& before,
                                      const Bases& now, const StateValues& m, const StateValues& v,
                                      const OptimizerStep& step, ThreadPool& threads) {
  rotate_moment(shape, before, now, false, m, step, threads);
  rotate_moment(shape, before, now, true, v, step, threads);
}

void LowRankOptimizer::rotate_moment(const LowRankShape& shape, const Bases& before,
                                     const Bases& now, bool squared, const StateValues& moment,
                                     const OptimizerStep& step, ThreadPool& threads) {
  if (moment.is_exact()) return subspace_.rotate(shape, before, now, squared, moment, threads);
  std::vector<float> values = moment.read_all(threads);
  subspace_.rotate(shape, before, now, squared, values, threads);
  // Random bits other than those of the step's update.
  moment.keep_all(values, ~step.number, threads);
}

Bases LowRankOptimizer::project_one_side(const TensorUpdate& tensor, const LowRankShape& shape,
                                         method::Moments moments, const OptimizerStep& step,
                                         ThreadPool& threads) {
  const std::span<float> basis = piece(tensor.tensor, 2);
  const Bases bases = shape.projects_rows() ? Bases{basis, {}} : Bases{{}, basis};
  const Bases before = refresh(tensor, shape, bases, step, threads);
  if (moments == method::Moments::kRotate && before.present()) {
    rotate_moments(shape, before, bases, piece(tensor.tensor, 0), piece(tensor.tensor, 1), step,
                   threads);
  }
  subspace_.project(shape, bases, tensor.gradient, step.gradient_scale, core(shape), threads);
  return bases;
}

uint64_t LowRankOptimizer::seed(size_t tensor) const {
  return derive_seed(options().seed, tensor + 1);
}

void LowRankOptimizer::move(const TensorUpdate& tensor, const OptimizerStep& step, double scale,
                            ThreadPool& threads) {
  const double lr = step.learning_rate;
  const auto shrink = static_cast<float>(1 - lr * options().weight_decay);
  const auto rate = static_cast<float>(lr * scale);
  change_pieces(options(), step, tensor, threads, [&](float* params, int64_t at, int64_t count) {
    step_along(params, full_.data() + at, count, shrink, rate);
  });
}

std::span<float> LowRankOptimizer::core(const LowRankShape& shape) {
  return room(core_, element_count(shape.core()));
}

std::span<float> LowRankOptimizer::full(const LowRankShape& shape) {
  return room(full_, shape.rows * shape.columns);
}

}  // namespace thinwire::optim
