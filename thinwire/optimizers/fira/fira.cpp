#include <algorithm>
#include <vector>

#include "thinwire/base/simd.h"
#include "thinwire/optim/channels.h"
#include "thinwire/optim/low_rank.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/fira/fira_spec.h"

namespace thinwire::optim {
namespace {

using method::FiraOptions;
using method::LowRankShape;

constexpr float kAboveZero = 1e-8f;
constexpr int64_t kGrain = 1024;

// inside = factor * gradient - scale * inside
THINWIRE_CLONES void subtract_from(const float* __restrict gradient, float* __restrict inside,
                                   int64_t count, float factor, float scale) {
  for (int64_t i = 0; i < count; ++i) inside[i] = factor * gradient[i] - scale * inside[i];
}

class Fira final : public LowRankOptimizer {
 public:
  Fira(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : LowRankOptimizer(options, layout, options.section<FiraOptions>("fira").low_rank,
                         options.section<FiraOptions>("fira").moments),
        fira_(options.section<FiraOptions>("fira")) {}

 private:
  void update_matrix(const TensorUpdate& tensor, const LowRankShape& shape,
                     const OptimizerStep& step, ThreadPool& threads) override {
    const Bases bases = take_core(tensor, shape, step, threads);
    take_remainder(tensor, shape, bases, step, threads);
    std::vector<float> scales = norms(shape, threads);
    adamw_direction(options(), step, core(shape), piece(tensor.tensor, 0), piece(tensor.tensor, 1),
                    threads);
    const std::vector<float> now = norms(shape, threads);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = now[i] / (scales[i] + kAboveZero);
    scale_channels(full(shape), shape.columns, channel(shape), scales, threads);
    const double norm = global_norm(full(shape), threads) / bias_correction(options(), step);
    const float limit = limit_growth(norm, fira_.growth, piece(tensor.tensor, 3)[0]);
    for (float& value : core(shape)) value *= scale();
    subspace().lift(shape, bases, core(shape), full(shape), threads, limit);
    move(
        tensor, step, 1, {0, shape.rows * shape.columns},
        [&](int64_t at, int64_t, float*) { return full_.data() + at; }, threads);
  }

  // Memory for a matrix of the tensor's shape.
  std::span<float> full(const LowRankShape& shape) {
    const auto count = static_cast<size_t>(shape.rows * shape.columns);
    full_.resize(std::max(full_.size(), count));
    return std::span(full_).first(count);
  }

  float scale() const { return static_cast<float>(fira_.scale); }

  // full = G - scale * P R, of the core R.
  void take_remainder(const TensorUpdate& tensor, const LowRankShape& shape, const Bases& bases,
                      const OptimizerStep& step, ThreadPool& threads) {
    subspace().lift(shape, bases, core(shape), full(shape), threads);
    float* const inside = full(shape).data();
    threads.for_ranges(shape.rows * shape.columns, kGrain, [&](int64_t begin, int64_t end, int) {
      subtract_from(tensor.gradient.data() + begin, inside + begin, end - begin,
                    step.gradient_scale, scale());
    });
  }

  static Channel channel(const LowRankShape& shape) {
    return shape.projects_rows() ? Channel::kColumn : Channel::kRow;
  }

  // The norms of the core's channels along the larger dimension.
  std::vector<float> norms(const LowRankShape& shape, ThreadPool& threads) {
    std::vector<float> norms(static_cast<size_t>(std::max(shape.rows, shape.columns)));
    channel_norms(core(shape), shape.core()[1], channel(shape), norms, threads);
    return norms;
  }

  FiraOptions fira_;
  std::vector<float> full_;
};

std::unique_ptr<Optimizer> make_fira(const method::OptimizerOptions& options,
                                     const tensor::Layout& layout) {
  return std::make_unique<Fira>(options, layout);
}

}  // namespace

// Fira's arithmetic (Chen et al. 2024, arXiv 2410.01623, algorithm 1).

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged):
//   R = P^T G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) for column j
//   p = p (1 - lr wd) - lr * (scale P D + limited((G - scale P R) diag(s)))
// `limited` limits the norm of the last term, without Adam's bias correction, to `growth` times its
// norm in the previous step. P is the same as in GaLore.
const OptimizerEntry kFira = {"fira", make_fira};

}  // namespace thinwire::optim
