#include "thinwire/optim/optimizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "thinwire/base/block_sizes.h"
#include "thinwire/base/simd.h"
#include "thinwire/tensor/kernels/launch.h"
#include "thinwire/tensor/kernels/number_formats.h"

namespace thinwire::optim {

namespace {

constexpr int64_t kBandRows = kStateBlock;
static_assert(kSlabElements % kNormBlock == 0 && kSlabElements % kStateBlock == 0);

// There are at most kNormBlock values.
THINWIRE_CLONES double sum_of_squares(const float* values, int64_t count) {
  double lanes[kNormLanes] = {};
  const int64_t whole = count / kNormLanes * kNormLanes;
  for (int64_t at = 0; at < whole; at += kNormLanes) {
    for (int64_t lane = 0; lane < kNormLanes; ++lane) {
      const double value = values[at + lane];
      lanes[lane] += value * value;
    }
  }
  for (int64_t at = whole; at < count; ++at) {
    const double value = values[at];
    lanes[at - whole] += value * value;
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

// The params must be in memory.
TensorUpdate update_of(tensor::Arena& params, size_t tensor, std::span<const float> gradient) {
  if (params.format() == WeightFormat::kBf16) {
    const auto count = static_cast<size_t>(params.layout().specs()[tensor].count());
    const std::span stored(params.bf16() + params.layout().offset(tensor), count);
    return {.tensor = tensor, .params = {}, .gradient = gradient, .stored = stored};
  }
  return {tensor, params.tensor(tensor), gradient, params.rounded_tensor(tensor)};
}

// `sum` and the squares of the values, block by block.
double add_blocks(double sum, int64_t count, const ValuesAt& values, ThreadPool& threads) {
  std::vector<double> blocks(static_cast<size_t>((count + kNormBlock - 1) / kNormBlock));
  threads.for_each(static_cast<int64_t>(blocks.size()), [&](int64_t block) {
    const int64_t begin = block * kNormBlock;
    const int64_t size = std::min(kNormBlock, count - begin);
    alignas(64) float room[kNormBlock];
    blocks[static_cast<size_t>(block)] = sum_of_squares(values(begin, size, room), size);
  });
  for (const double block : blocks) sum += block;
  return sum;
}

}  // namespace

TensorUpdate tensor_update(tensor::Arena& params, size_t tensor, std::span<const float> gradient) {
  params.touch_tensor(tensor, true);
  return update_of(params, tensor, gradient);
}

TensorUpdate rows_update(tensor::Arena& params, size_t tensor, int64_t begin,
                         std::span<const float> gradient) {
  params.touch(params.layout().offset(tensor) + begin, std::ssize(gradient), true);
  TensorUpdate update = update_of(params, tensor, gradient);
  update.begin = begin;
  return update;
}

Optimizer::Optimizer(const method::OptimizerOptions& options, const tensor::Layout& layout)
    : options_(options), layout_(layout), memory_(options, layout) {}

void Optimizer::project(size_t, uint64_t, std::span<const float> whole, std::span<float> projected,
                        ThreadPool&, const Average&) {
  std::ranges::copy(whole, projected.begin());
}

bool Optimizer::computes_on_device(const tensor::Arena& params, const tensor::Arena& grads) const {
  return updates_on_device() && params.device() != nullptr && grads.device() != nullptr &&
         memory_.can_mirror();
}

void Optimizer::step(tensor::Arena& params, const tensor::Arena& grads, const OptimizerStep& step,
                     ThreadPool& threads) {
  const auto same = [&](size_t) { return step.gradient_scale; };
  this->step(params, grads, step, same, threads);
}

void Optimizer::step(tensor::Arena& params, const tensor::Arena& grads, const OptimizerStep& step,
                     const ScaleOf& scale, ThreadPool& threads) {
  const bool on_device = computes_on_device(params, grads);
  if (on_device) {
    memory_.mirror_on(*params.device());
    if (!failed_) failed_.emplace(*params.device(), 1);
  }
  OptimizerStep own = step;
  for (size_t tensor = 0; tensor < layout_.size(); ++tensor) {
    if (!options_.updates(tensor)) continue;
    assert(method::gradient_shape(options_, spec(tensor)) == grads.layout().specs()[tensor].shape);
    own.gradient_scale = scale(tensor);
    if (on_device) {
      const int64_t offset = layout_.offset(tensor);
      const DeviceUpdate update = {tensor, *params.device(), params.device_values() + offset,
                                   grads.device_values() + grads.layout().offset(tensor),
                                   failed_->device()};
      update_on_device(update, own, threads);
    } else {
      update(tensor_update(params, tensor, grads.tensor(tensor)), own, threads);
    }
  }
  if (on_device) return check_device_state();
  if (params.rounded() != nullptr) params.set_rounded_current();
}

void Optimizer::check_device_state() {
  if (options_.state != StateFormat::k8Bit) return;  // others can hold any value
  failed_->download();
  if (failed_->host().front() != 0) throw_not_finite();
}

THINWIRE_CLONES void step_along(float* __restrict p, const float* __restrict direction,
                                int64_t count, float shrink, float rate) {
  for (int64_t i = 0; i < count; ++i) p[i] = p[i] * shrink - rate * direction[i];
}

void for_pieces(int64_t size, ThreadPool& threads,
                const std::function<void(int64_t begin, int64_t count)>& change) {
  threads.for_ranges(size, kPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t at = begin; at < end; at += kPiece) change(at, std::min(kPiece, end - at));
  });
}

void for_bands(int64_t rows, const std::function<void(int64_t first, int64_t count)>& change) {
  for (int64_t first = 0; first < rows; first += kBandRows) {
    change(first, std::min(kBandRows, rows - first));
  }
}

void update_pieces(const method::OptimizerOptions& options, const OptimizerStep& step,
                   const TensorUpdate& tensor, ThreadPool& threads,
                   const std::function<void(float* params, int64_t begin, int64_t count)>& change) {
  const auto count = static_cast<int64_t>(std::max(tensor.params.size(), tensor.stored.size()));
  update_pieces(options, step, tensor, {0, count}, threads, change);
}

void update_pieces(const method::OptimizerOptions& options, const OptimizerStep& step,
                   const TensorUpdate& tensor, const Elements& elements, ThreadPool& threads,
                   const std::function<void(float* params, int64_t begin, int64_t count)>& change) {
  if (!tensor.stored.empty()) {
    const StateValues weights(tensor.stored, {options.seed, 0, tensor.tensor});
    return for_pieces(elements.count, threads, [&](int64_t from, int64_t count) {
      const int64_t at = elements.begin + from;
      StatePart part(weights, at, count);
      change(part.values(), at, count);
      part.keep(step.number);
    });
  }
  for_pieces(elements.count, threads, [&](int64_t from, int64_t count) {
    const int64_t at = elements.begin + from;
    float* const params = tensor.params.data() + at;
    change(params, at, count);
    if (tensor.rounded != nullptr) {
      tensor::round_to_nearest(params, count, tensor.rounded + at);
    }
  });
}

double global_norm(std::span<const float> values, ThreadPool& threads) {
  return global_norm(
      static_cast<int64_t>(values.size()),
      [&](int64_t at, int64_t, float*) { return values.data() + at; }, threads);
}

double global_norm(int64_t count, const ValuesAt& values, ThreadPool& threads) {
  return std::sqrt(add_blocks(0, count, values, threads));
}

double add_squares(double sum, std::span<const float> values, ThreadPool& threads) {
  return add_blocks(
      sum, static_cast<int64_t>(values.size()),
      [&](int64_t at, int64_t, float*) { return values.data() + at; }, threads);
}

float clip_scale(double norm, double clip) {
  if (clip <= 0) return 1;
  return static_cast<float>(std::min(1.0, clip / (norm + 1e-6)));
}

double ArenaNorm::of(const tensor::Arena& values, ThreadPool& threads) {
  const tensor::DevicePlace* const device = values.device();
  if (device == nullptr) return global_norm(values.all(), threads);
  tensor::SquaresOfBlocks kernel = {values.layout().total(), values.device_values()};
  const auto blocks = static_cast<size_t>(kernel.blocks());
  if (!on_device_) on_device_.emplace(OnDevice{{*device, blocks * kNormLanes}, {*device, blocks}});
  kernel.lane_sums = on_device_->lane_sums.device();
  kernel.sums = on_device_->sums.device();
  tensor::launch(*device, threads, kernel, kernel.rows());
  on_device_->sums.download();
  double sum = 0;
  for (const double block : on_device_->sums.host()) sum += block;
  return std::sqrt(sum);
}

}  // namespace thinwire::optim
