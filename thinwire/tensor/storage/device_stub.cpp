// device.h and mirror.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/tensor/storage/device.h"
#include "thinwire/tensor/storage/mirror.h"

namespace thinwire::tensor {

int cuda_device_count() { return 0; }

std::string cuda_status() { return "this program was built without LibTorch"; }

std::unique_ptr<Mirror> make_mirror(const DevicePlace&, float*, int64_t) {
  throw UsageError("memory on a device needs LibTorch, which this program was built without");
}

}  // namespace thinwire::tensor
