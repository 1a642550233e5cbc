// launch.h in builds without CUDA.
#include "thinwire/base/error.h"
#include "thinwire/tensor/kernels/launch.h"

namespace thinwire::tensor {

template <typename Kernel>
void launch_cuda(int, const Kernel&, int64_t) {
  throw Error("a GPU kernel was called in a program built without CUDA");
}

#define THINWIRE_INSTANTIATE(Kernel) template void launch_cuda(int, const Kernel&, int64_t);
THINWIRE_FOR_PORTABLE_KERNELS(THINWIRE_INSTANTIATE)
#undef THINWIRE_INSTANTIATE

}  // namespace thinwire::tensor
