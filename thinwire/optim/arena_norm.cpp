#include "thinwire/optim/arena_norm.h"

#include <cmath>

#include "thinwire/base/block_sizes.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::optim {

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
