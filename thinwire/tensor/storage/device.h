// Devices that LibTorch computes on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/base/tensor_view.h"

namespace c10 {
struct Device;
}

namespace thinwire::tensor {

struct DevicePlace {
  Device kind = Device::kCpu;
  int index = 0;  // among the CUDA devices of this machine
};

// The same for LibTorch; only in builds with it.
c10::Device torch_device(const DevicePlace& place);

// The device's memory: that of the machine if it is the CPU.
MachineMemory device_memory(const DevicePlace& device);

// Uninitialized memory, aligned to 64 bytes. Throws Error if there is too little.
std::shared_ptr<void> allocate_on(const DevicePlace& device, size_t bytes);

// CUDA devices that this process can use; 0 if there are none and in builds without CUDA.
int cuda_device_count();

// One sentence about what CUDA finds here: how many devices, or why there are none (no CUDA in this
// build, no driver, no device).
std::string cuda_status();

// A device's copy of host memory; see TwoSided and DeviceBuffer.
class Mirror {
 public:
  virtual ~Mirror() = default;
  virtual void* data() = 0;   // on the device
  virtual void upload() = 0;  // host to device; both return when the copy is complete
  virtual void download(size_t begin, size_t bytes) = 0;  // device to host, of these bytes
  virtual void clear() = 0;                               // zeroes the device's side
};

// A mirror of host memory, which must stay in place while the mirror exists. Not yet filled. Throws
// Error if the device lacks memory.
std::unique_ptr<Mirror> make_mirror(const DevicePlace& device, std::span<std::byte> host);

// Working memory of kernels (tensor/kernels/launch.h).

// Values in host memory with a copy on a device; if the device is the CPU, both are the same
// memory. Copies are made only by upload() and download().
template <typename T>
class DeviceBuffer {
 public:
  // Throws Error if the device lacks memory.
  DeviceBuffer(const DevicePlace& place, size_t count) : host_(std::max<size_t>(count, 1)) {
    if (place.kind == Device::kCuda) {
      mirror_ = make_mirror(place, std::as_writable_bytes(std::span(host_)));
    }
  }

  std::vector<T>& host() { return host_; }
  T* device() { return mirror_ == nullptr ? host_.data() : static_cast<T*>(mirror_->data()); }
  void upload() {
    if (mirror_ != nullptr) mirror_->upload();
  }
  void download() {
    if (mirror_ != nullptr) mirror_->download(0, host_.size() * sizeof(T));
  }

 private:
  std::vector<T> host_;
  std::unique_ptr<Mirror> mirror_;  // declared after the memory that it refers to
};

// Values that only kernels use, uninitialized.
template <typename T>
class DeviceScratch {
 public:
  // Throws Error if the device lacks memory.
  DeviceScratch(const DevicePlace& place, size_t count)
      : memory_(allocate_on(place, count * sizeof(T))) {}
  T* device() { return static_cast<T*>(memory_.get()); }

 private:
  std::shared_ptr<void> memory_;
};

}  // namespace thinwire::tensor
