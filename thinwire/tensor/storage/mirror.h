// A device's copy of host memory; see TwoSided and DeviceBuffer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

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

}  // namespace thinwire::tensor
