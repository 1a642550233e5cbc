#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/optim/channels.h"
#include "thinwire/optim/low_rank.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/optimizers/adamw/adamw.h"
#include "thinwire/optimizers/apollo/apollo_spec.h"

namespace thinwire::optim {
namespace {

using method::ApolloOptions;
using method::LowRankShape;

constexpr float kAboveZero = 1e-8f;

class Apollo final : public LowRankOptimizer {
 public:
  Apollo(const method::OptimizerOptions& options, const tensor::Layout& layout)
      : LowRankOptimizer(options, layout, options.section<ApolloOptions>("apollo").low_rank),
        apollo_(options.section<ApolloOptions>("apollo")) {}

 private:
  void update_matrix(const TensorUpdate& tensor, const LowRankShape& shape,
                     const OptimizerStep& step, ThreadPool& threads) override {
    const Bases held = bases(tensor.tensor, shape);
    if (due(tensor.tensor, step.number) || !held.present()) {
      draw(held.left.empty() ? held.right : held.left, tensor.tensor, shape, step);
      keep_bases(tensor.tensor, shape, step.number, threads);
    }
    subspace().project(shape, held, tensor.gradient, step.gradient_scale, core(shape), threads);
    const std::vector<float> before = norms(shape, threads);
    adamw_direction(options(), step, core(shape), piece(tensor.tensor, 0), piece(tensor.tensor, 1),
                    threads);
    std::vector<float> scales = norms(shape, threads);
    for (size_t i = 0; i < scales.size(); ++i) scales[i] /= before[i] + kAboveZero;
    step_along_gradient(tensor, shape, step, std::move(scales), threads);
  }

  void draw(std::span<float> projection, size_t tensor, const LowRankShape& shape,
            const OptimizerStep& step) const {
    Rng rng(seed(tensor), renewals(tensor, step));
    const double deviation = 1 / std::sqrt(static_cast<double>(shape.rank));
    for (float& value : projection) value = static_cast<float>(deviation * rng.normal());
  }

  static Channel channel(const LowRankShape& shape) {
    return shape.projects_rows() ? Channel::kColumn : Channel::kRow;
  }

  // The norms of the core's channels, or of the whole core.
  std::vector<float> norms(const LowRankShape& shape, ThreadPool& threads) {
    if (apollo_.scaling == method::Scaling::kTensor) {
      return {static_cast<float>(global_norm(core(shape), threads))};
    }
    std::vector<float> norms(static_cast<size_t>(std::max(shape.rows, shape.columns)));
    channel_norms(core(shape), shape.core()[1], channel(shape), norms, threads);
    return norms;
  }

  // A step along the gradient times its channels' scales, within the limit of growth.
  void step_along_gradient(const TensorUpdate& tensor, const LowRankShape& shape,
                           const OptimizerStep& step, std::vector<float> scales,
                           ThreadPool& threads) {
    for (float& value : scales) value *= step.gradient_scale;
    if (scales.size() == 1)
      scales.resize(static_cast<size_t>(std::max(shape.rows, shape.columns)), scales[0]);
    const ValuesAt direction = [&](int64_t at, int64_t count, float* room) {
      scaled_elements(tensor.gradient, shape.columns, channel(shape), scales, at, count, room);
      return room;
    };
    const int64_t count = shape.rows * shape.columns;
    const double norm = global_norm(count, direction, threads);
    const float limit = limit_growth(norm / bias_correction(options(), step), apollo_.growth,
                                     piece(tensor.tensor, 3)[0]);
    move(tensor, step, apollo_.scale * limit, {0, count}, direction, threads);
  }

  ApolloOptions apollo_;
};

std::unique_ptr<Optimizer> make_apollo(const method::OptimizerOptions& options,
                                       const tensor::Layout& layout) {
  return std::make_unique<Apollo>(options, layout);
}

}  // namespace

// APOLLO's arithmetic (Zhu et al. 2024, arXiv 2412.05270, algorithm 1).

// For a matrix of the blocks with rows <= columns (otherwise with rows and columns exchanged), and
// P [rank, rows] with entries from N(0, 1 / rank), redrawn every apollo.refresh steps:
//   R = P G      D = Adam(R)      s_j = |D_j| / (|R_j| + 1e-8) for column j, or for all
//   p = p (1 - lr wd) - lr * scale * limited(G diag(s))
// `limited` limits the norm of a step, without Adam's bias correction, to `growth` times that of
// the previous step.
const OptimizerEntry kApollo = {"apollo", make_apollo};

}  // namespace thinwire::optim
