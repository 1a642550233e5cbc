#include "thinwire/optim/low_rank.h"

#include <algorithm>

#include "thinwire/base/rng.h"
#include "thinwire/base/scratch.h"
#include "thinwire/base/simd.h"
#include "thinwire/optim/products.h"
#include "thinwire/optimizers/adamw/adamw.h"

namespace thinwire::optim {
namespace {

using method::Basis;
using method::LowRankShape;

constexpr int64_t kGrain = 1024;

std::vector<LowRankShape> shapes_of(const tensor::Layout& layout,
                                    const method::LowRankFields& fields, method::Sides sides) {
  std::vector<LowRankShape> shapes;
  for (const TensorSpec& spec : layout.specs()) {
    shapes.push_back(method::low_rank_shape(fields, spec, sides));
  }
  return shapes;
}

THINWIRE_CLONES void scaled_copy(const float* from, float* to, int64_t count, float factor) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

}  // namespace

LowRankOptimizer::LowRankOptimizer(const method::OptimizerOptions& options,
                                   const tensor::Layout& layout,
                                   const method::LowRankFields& fields, method::Moments moments,
                                   method::Sides sides)
    : Optimizer(options, layout),
      shapes_(shapes_of(layout, fields, sides)),
      moments_(moments),
      plan_(fields, shapes_) {}

void LowRankOptimizer::update(const TensorUpdate& tensor, const OptimizerStep& step,
                              ThreadPool& threads) {
  const LowRankShape& shape = shapes_[tensor.tensor];
  if (shape.rank > 0) {
    if (shape.basis == Basis::kSeeded) draw_if_absent(tensor.tensor, step.number);
    update_matrix(tensor, shape, step, threads);
    if (!redrawn(tensor.tensor, step.number)) {
      return take_renewed(tensor.tensor, step.number, threads);
    }
    return draw(tensor.tensor, renewals(tensor.tensor, step));
  }
  adamw_update(options(), spec(tensor.tensor).decays(), tensor, piece(tensor, 0), piece(tensor, 1),
               step, threads);
}

tensor::GradientForm LowRankOptimizer::gradient_form(size_t tensor, uint64_t step) {
  const LowRankShape& shape = shapes_[tensor];
  if (!options().projected || shape.rank == 0) return {};
  const bool seeded = shape.basis == Basis::kSeeded;
  if (seeded) draw_if_absent(tensor, step);
  tensor::GradientForm form = {.projected = true, .renewed = !seeded && due(tensor, step)};
  const Bases held = bases(tensor, shape);
  if (held.present()) form.bases = {held.left.data(), held.right.data(), shape.rank};
  return form;
}

void LowRankOptimizer::project(size_t tensor, uint64_t step, std::span<const float> whole,
                               std::span<float> projected, ThreadPool& threads,
                               const Average& average) {
  const LowRankShape& shape = shapes_[tensor];
  const Bases held = bases(tensor, shape);
  if (shape.basis == Basis::kSeeded) {
    return subspace_.project(shape, held, whole, 1, projected, threads);
  }
  const bool present = held.present();
  if (!present) {
    subspace_.start(shape, held, whole, seed(tensor), threads, average);
    keep_bases(tensor, shape, step, threads);
  }
  subspace_.project(shape, held, whole, 1, projected, threads);
  if (!present || !due(tensor, step)) return;
  Renewed& renewed = renewed_[tensor];
  renewed.left.assign(held.left.begin(), held.left.end());
  renewed.right.assign(held.right.begin(), held.right.end());
  subspace_.renew(shape, {renewed.left, renewed.right},
                  {whole, projected, seed(tensor), plan_.renewals(tensor, step)}, threads, average);
}

bool LowRankOptimizer::redrawn(size_t tensor, uint64_t step) const {
  const LowRankShape& shape = shapes_[tensor];
  return shape.rank > 0 && shape.basis == Basis::kSeeded && due(tensor, step);
}

void LowRankOptimizer::draw_if_absent(size_t tensor, uint64_t step) {
  if (!bases(tensor, shapes_[tensor]).present()) draw(tensor, plan_.renewals_before(tensor, step));
}

// The number of renewals, not the step, decides how the bases are rounded, so that workers agree on
// them whenever they draw them.
void LowRankOptimizer::draw(size_t tensor, uint64_t renewals) {
  const LowRankShape& shape = shapes_[tensor];
  draw_seeded(shape, bases(tensor, shape), derive_seed(seed(tensor), renewals));
  ThreadPool one(1);
  keep_bases(tensor, shape, renewals, one);
}

void LowRankOptimizer::reset() {
  Optimizer::reset();
  renewed_.clear();
}

LowRankOptimizer::BasisPieces LowRankOptimizer::basis_pieces(size_t tensor,
                                                             const LowRankShape& shape) {
  const StateValues basis = piece(tensor, 2);
  if (shape.projects_rows()) return {basis, std::nullopt};
  return {std::nullopt, basis};
}

Bases LowRankOptimizer::bases(size_t tensor, const LowRankShape& shape) {
  const auto held = [](const std::optional<StateValues>& piece, std::vector<float>& copy) {
    if (!piece) return std::span<float>();
    if (piece->is_exact()) return std::span<float>(*piece);
    const std::span<float> values = scratch(copy, piece->size());
    piece->read(0, piece->size(), values.data());
    return values;
  };
  const auto [left, right] = basis_pieces(tensor, shape);
  return {held(left, left_), held(right, right_)};
}

void LowRankOptimizer::keep_bases(size_t tensor, const LowRankShape& shape, uint64_t step,
                                  ThreadPool& threads) {
  const auto keep = [&](const std::optional<StateValues>& piece, std::vector<float>& copy) {
    if (!piece || piece->is_exact()) return;
    piece->keep_all(scratch(copy, piece->size()), step, threads);
    piece->read(0, piece->size(), copy.data());
  };
  const auto [left, right] = basis_pieces(tensor, shape);
  keep(left, left_);
  keep(right, right_);
}

void LowRankOptimizer::change_bases(size_t tensor, const LowRankShape& shape, const Bases& before,
                                    const Bases& now, uint64_t step, ThreadPool& threads) {
  if (moments_ == method::Moments::kKeep) return;
  rotate_moment(shape, before, now, false, piece(tensor, 0), step, threads);
  rotate_moment(shape, before, now, true, piece(tensor, 1), step, threads);
}

void LowRankOptimizer::rotate_moment(const LowRankShape& shape, const Bases& before,
                                     const Bases& now, bool squared, const StateValues& moment,
                                     uint64_t step, ThreadPool& threads) {
  if (moment.is_exact()) return subspace_.rotate(shape, before, now, squared, moment, threads);
  std::vector<float> values = moment.read_all(threads);
  subspace_.rotate(shape, before, now, squared, values, threads);
  // Random bits other than those of the step's update.
  moment.keep_all(values, ~step, threads);
}

void LowRankOptimizer::take_renewed(size_t tensor, uint64_t step, ThreadPool& threads) {
  const auto found = renewed_.find(tensor);
  if (found == renewed_.end()) return;
  const LowRankShape& shape = shapes_[tensor];
  Renewed& renewed = found->second;
  const Bases held = bases(tensor, shape);
  std::ranges::swap_ranges(held.left, renewed.left);
  std::ranges::swap_ranges(held.right, renewed.right);
  keep_bases(tensor, shape, step, threads);
  change_bases(tensor, shape, {renewed.left, renewed.right}, held, step, threads);
  renewed_.erase(found);
}

Bases LowRankOptimizer::take_core(const TensorUpdate& tensor, const LowRankShape& shape,
                                  const OptimizerStep& step, ThreadPool& threads) {
  const std::span<float> projected = core(shape);
  const float* from = tensor.gradient.data();
  if (!options().projected) {
    project(tensor.tensor, step.number, tensor.gradient, projected, threads, {});
    from = projected.data();
  }
  threads.for_ranges(
      static_cast<int64_t>(projected.size()), kGrain, [&](int64_t begin, int64_t end, int) {
        scaled_copy(from + begin, projected.data() + begin, end - begin, step.gradient_scale);
      });
  return bases(tensor.tensor, shape);
}

uint64_t LowRankOptimizer::seed(size_t tensor) const {
  return derive_seed(options().seed, tensor + 1);
}

void LowRankOptimizer::move(const TensorUpdate& tensor, const OptimizerStep& step, double scale,
                            const Elements& elements, const ValuesAt& direction,
                            ThreadPool& threads) {
  const double lr = step.learning_rate;
  const auto shrink = static_cast<float>(1 - lr * options().weight_decay);
  const auto rate = static_cast<float>(lr * scale);
  update_pieces(options(), step, tensor, elements, threads,
                [&](float* params, int64_t at, int64_t count) {
                  alignas(64) float values[kPiece];
                  step_along(params, direction(at, count, values), count, shrink, rate);
                });
}

void LowRankOptimizer::move_in_subspace(const TensorUpdate& tensor, const LowRankShape& shape,
                                        const Bases& bases, const OptimizerStep& step, double scale,
                                        ThreadPool& threads) {
  const auto [left, right] = subspace_.factors(shape, bases, core(shape), threads);
  for_bands(shape.rows, [&](int64_t first, int64_t rows) {
    const Elements band = {first * shape.columns, rows * shape.columns};
    float* const values = scratch(band_, band.count).data();
    multiply({left + first * shape.rank, right, nullptr, values, shape.rank, shape.columns}, rows,
             threads);
    move(
        tensor, step, scale, band,
        [&](int64_t at, int64_t, float*) { return values + (at - band.begin); }, threads);
  });
}

std::span<float> LowRankOptimizer::core(const LowRankShape& shape) {
  return scratch(core_, element_count(shape.core()));
}

}  // namespace thinwire::optim
