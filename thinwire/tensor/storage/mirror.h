// A device's copy of host memory; see Arena::mirror_on.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

class Mirror {
 public:
  virtual ~Mirror() = default;
  virtual float* data() = 0;  // on the device
  virtual void upload() = 0;  // host to device; both return when the copy is complete
  virtual void download(int64_t count) = 0;  // device to host, of the first values
  virtual void clear() = 0;                  // zeroes the device's side
};

// A mirror of `count` values at `host`, which must stay in place while the mirror exists. Not yet
// filled. Throws Error if the device lacks memory.
std::unique_ptr<Mirror> make_mirror(const DevicePlace& device, float* host, int64_t count);

}  // namespace thinwire::tensor
