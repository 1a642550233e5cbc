// device.h and mirror.h with LibTorch. Its include folder holds a different version of fmt from the
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
#include "thinwire/tensor/storage/mirror.h"

namespace thinwire::tensor {
namespace {

// Page-locks host memory, which the GPU then reads and writes at the full speed of its bus. If the
// system refuses, copies are slower and nothing else changes.
class Pinned {
 public:
  Pinned([[maybe_unused]] const DevicePlace& device, [[maybe_unused]] float* host,
         [[maybe_unused]] int64_t count) {
#ifdef THINWIRE_CUDA
    if (device.kind != Device::kCuda) return;
    const auto bytes = static_cast<size_t>(count) * sizeof(float);
    if (cudaHostRegister(host, bytes, cudaHostRegisterPortable) == cudaSuccess) host_ = host;
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
  [[maybe_unused]] float* host_ = nullptr;
};

at::Tensor allocate(const DevicePlace& device, int64_t count) {
  const c10::Device place(device.kind == Device::kCuda ? c10::kCUDA : c10::kCPU,
                          device.kind == Device::kCuda ? static_cast<c10::DeviceIndex>(device.index)
                                                       : c10::DeviceIndex{-1});
  try {
    return at::empty({count}, at::TensorOptions().dtype(at::kFloat).device(place));
  } catch (const c10::Error& error) {
    throw Error(std::to_string(count * sizeof(float)) + " bytes on device " + place.str() +
                " cannot be allocated: " + error.what_without_backtrace());
  }
}

class TorchMirror final : public Mirror {
 public:
  TorchMirror(const DevicePlace& device, float* host, int64_t count)
      : pinned_(device, host, count),
        host_(at::from_blob(host, {count}, at::kFloat)),
        device_(allocate(device, count)) {}

  float* data() override { return device_.data_ptr<float>(); }
  void upload() override { device_.copy_(host_); }
  void download(int64_t count) override {
    host_.narrow(0, 0, count).copy_(device_.narrow(0, 0, count));
  }
  void clear() override { device_.zero_(); }

 private:
  Pinned pinned_;
  at::Tensor host_, device_;
};

}  // namespace

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

std::unique_ptr<Mirror> make_mirror(const DevicePlace& device, float* host, int64_t count) {
  return std::make_unique<TorchMirror>(device, host, count);
}

}  // namespace thinwire::tensor
