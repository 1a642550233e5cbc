// device.h with LibTorch. Its include folder holds a different version of fmt from the
// linked one, so fmt must not be used here.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "thinwire/tensor/storage/device.h"
#ifdef THINWIRE_CUDA
#include <cuda_runtime_api.h>
#endif

#include "thinwire/base/error.h"

namespace thinwire::tensor {
namespace {

// Page-locks host memory, which the GPU then reads and writes at the full speed of its bus. If the
// system refuses, copies are slower and nothing else changes.
class Pinned {
 public:
  Pinned([[maybe_unused]] const DevicePlace& device, [[maybe_unused]] std::span<std::byte> host) {
#ifdef THINWIRE_CUDA
    if (device.kind != Device::kCuda) return;
    if (cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable) == cudaSuccess) {
      host_ = host.data();
    }
    cudaGetLastError();  // clears a refusal, so that later calls do not report it
#endif
  }
#ifdef THINWIRE_CUDA
  ~Pinned() {
    if (host_ != nullptr) cudaHostUnregister(host_);
  }
#else
  ~Pinned() = default;
#endif
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  [[maybe_unused]] void* host_ = nullptr;
};

at::Tensor allocate(const DevicePlace& device, size_t bytes) {
  const c10::Device place = torch_device(device);
  try {
    return at::empty({static_cast<int64_t>(bytes)},
                     at::TensorOptions().dtype(at::kByte).device(place));
  } catch (const c10::Error& error) {
    throw Error(std::to_string(bytes) + " bytes on device " + place.str() +
                " cannot be allocated: " + error.what_without_backtrace());
  }
}

class TorchMirror final : public Mirror {
 public:
  TorchMirror(const DevicePlace& device, std::span<std::byte> host)
      : pinned_(device, host),
        host_(at::from_blob(host.data(), {static_cast<int64_t>(host.size())}, at::kByte)),
        device_(allocate(device, host.size())) {}

  void* data() override { return device_.data_ptr(); }
  void upload() override { device_.copy_(host_); }
  void download(size_t begin, size_t bytes) override {
    part(host_, begin, bytes).copy_(part(device_, begin, bytes));
  }
  void clear() override { device_.zero_(); }

 private:
  static at::Tensor part(const at::Tensor& all, size_t begin, size_t bytes) {
    return all.narrow(0, static_cast<int64_t>(begin), static_cast<int64_t>(bytes));
  }

  Pinned pinned_;
  at::Tensor host_, device_;
};

}  // namespace

c10::Device torch_device(const DevicePlace& place) {
  if (place.kind == Device::kCpu) return {c10::kCPU};
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(place.index)};
}

MachineMemory device_memory([[maybe_unused]] const DevicePlace& device) {
#ifdef THINWIRE_CUDA
  if (device.kind == Device::kCuda) {
    size_t available = 0, total = 0;
    const bool known = cudaSetDevice(device.index) == cudaSuccess &&
                       cudaMemGetInfo(&available, &total) == cudaSuccess;
    cudaGetLastError();  // clears a refusal, so that later calls do not report it
    if (!known) return {};
    return {static_cast<double>(total), static_cast<double>(available)};
  }
#endif
  return machine_memory();
}

int cuda_device_count() {
#ifdef THINWIRE_CUDA
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
#else
  return 0;
#endif
}

std::string cuda_status() {
#ifdef THINWIRE_CUDA
  int count = 0, driver = 0;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (counted == cudaSuccess && count > 0) {
    return "CUDA devices here: " + std::to_string(count);
  }
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return "this machine has no CUDA driver";
  }
  const std::string version =
      std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
  return "this machine's CUDA driver (" + version + ") offers no device to this program (" +
         (counted == cudaSuccess ? "none found" : cudaGetErrorString(counted)) + ")";
#else
  return "this program was built without CUDA (build it with the preset cuda)";
#endif
}

std::shared_ptr<void> allocate_on(const DevicePlace& device, size_t bytes) {
  const auto tensor = std::make_shared<at::Tensor>(allocate(device, bytes));
  return {tensor, tensor->data_ptr()};
}

std::unique_ptr<Mirror> make_mirror(const DevicePlace& device, std::span<std::byte> host) {
  return std::make_unique<TorchMirror>(device, host);
}

}  // namespace thinwire::tensor
