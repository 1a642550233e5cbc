// The global norm of an arena, formed where its values are.
#pragma once

#include <optional>

#include "thinwire/base/threads.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/device_buffer.h"

namespace thinwire::optim {

// For one arena. Keeps its working memory.
class ArenaNorm {
 public:
  // global_norm() of all values, with the same bits wherever it is formed.
  double of(const tensor::Arena& values, ThreadPool& threads);

 private:
  struct OnDevice {
    tensor::DeviceScratch<double> lane_sums;
    tensor::DeviceBuffer<double> sums;  // of the blocks
  };
  std::optional<OnDevice> on_device_;
};

}  // namespace thinwire::optim
