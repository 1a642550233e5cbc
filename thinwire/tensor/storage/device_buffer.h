// Working memory of kernels (tensor/kernels/launch.h).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

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
