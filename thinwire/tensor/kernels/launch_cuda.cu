// launch.h on a GPU.
#include <cuda_runtime.h>

#include <string>

#include "thinwire/base/error.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::tensor {
namespace {

constexpr int kWarp = 32;

template <typename Kernel>
constexpr int threads_of() {
  if constexpr (requires { Kernel::kBlockThreads; }) return Kernel::kBlockThreads;
  return kBlockThreads;
}

// The threads of a block, with the interface of OnlyLane in portable_kernels.h.
template <int kThreads>
class BlockLanes {
 public:
  __device__ explicit BlockLanes(float* shared) : shared_(shared) {}
  __device__ int64_t index() const { return threadIdx.x; }
  __device__ int64_t count() const { return kThreads; }

  __device__ float sum(float value) {
    return over_block(value, [](float a, float b) { return a + b; });
  }
  __device__ float maximum(float value) {
    return over_block(value, [](float a, float b) { return fmaxf(a, b); });
  }
  __device__ void barrier() { __syncthreads(); }

 private:
  static constexpr int kWarps = kThreads / kWarp;

  // Within each warp by a butterfly, then over the warps in order: the same result for each thread.
  template <typename Combine>
  __device__ float over_block(float value, Combine combine) {
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
    __syncthreads();  // the last call's values have been read
    if (threadIdx.x % kWarp == 0) shared_[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = shared_[0];
    for (int warp = 1; warp < kWarps; ++warp) value = combine(value, shared_[warp]);
    return value;
  }

  float* shared_;  // [kWarps]
};

template <typename Kernel>
__global__ void __launch_bounds__(threads_of<Kernel>()) run_rows(Kernel kernel) {
  constexpr int kThreads = threads_of<Kernel>();
  __shared__ float shared[kThreads / kWarp];
  BlockLanes<kThreads> lanes(shared);
  kernel(lanes, blockIdx.x);
}

void check(cudaError_t status, const std::string& what) {
  if (status == cudaSuccess) return;
  throw Error("CUDA: " + what + ": " + cudaGetErrorString(status));
}

}  // namespace

template <typename Kernel>
void launch_cuda(int index, const Kernel& kernel, int64_t rows) {
  if (rows == 0) return;
  check(cudaSetDevice(index), "choosing the device");
  run_rows<<<static_cast<unsigned>(rows), threads_of<Kernel>()>>>(kernel);
  check(cudaGetLastError(), "launching a kernel");
}

#define THINWIRE_INSTANTIATE(Kernel) template void launch_cuda(int, const Kernel&, int64_t);
THINWIRE_FOR_PORTABLE_KERNELS(THINWIRE_INSTANTIATE)
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::tensor
