// device.h without LibTorch.
#include "thinwire/base/error.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

MachineMemory device_memory(const DevicePlace&) { return machine_memory(); }

std::shared_ptr<void> allocate_on(const DevicePlace&, size_t bytes) {
  return {allocate_aligned(bytes, nullptr), FreeAligned{}};
}

int cuda_device_count() { return 0; }

std::string cuda_status() {
  return "this program was built without LibTorch (docs/gpu.md says how it is built with it)";
}

std::unique_ptr<Mirror> make_mirror(const DevicePlace&, std::span<std::byte>) {
  throw UsageError("memory on a device needs LibTorch, which this program was built without");
}

}  // namespace thinwire::tensor
