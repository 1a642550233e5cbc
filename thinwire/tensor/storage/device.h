// Devices that LibTorch computes on.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "thinwire/base/tensor_view.h"

namespace thinwire::tensor {

struct DevicePlace {
  Device kind = Device::kCpu;
  int index = 0;  // among the CUDA devices of this machine
};

// Uninitialized memory, aligned to 64 bytes. Throws Error if there is too little.
std::shared_ptr<void> allocate_on(const DevicePlace& device, size_t bytes);

// CUDA devices that this process can use; 0 if there are none and in builds without CUDA.
int cuda_device_count();

// One sentence about what CUDA finds here: how many devices, or why there are none (no CUDA in this
// build, no driver, no device).
std::string cuda_status();

}  // namespace thinwire::tensor
