// Runs the kernels of the portable_*.h files: on the CPU with a pool of threads, on a GPU with one
// thread block per row.
#pragma once

#include <cstdint>

#include "thinwire/base/threads.h"
#include "thinwire/tensor/kernels/portable_formats.h"
#include "thinwire/tensor/kernels/portable_kernels.h"
#include "thinwire/tensor/kernels/portable_passes.h"
#include "thinwire/tensor/kernels/portable_tiles.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

// Calls kernel(lanes, row) for every row in [0, rows) on CUDA device `index`, in the order of its
// default stream; does not wait. Throws Error when the launch fails, or without CUDA.
template <typename Kernel>
void launch_cuda(int index, const Kernel& kernel, int64_t rows);

// The same on either kind of device. When a call on the CPU returns, all rows are done.
template <typename Kernel>
void launch(const DevicePlace& device, ThreadPool& threads, const Kernel& kernel, int64_t rows) {
  if (device.kind == Device::kCuda) return launch_cuda(device.index, kernel, rows);
  threads.for_ranges(rows, 1, [&](int64_t begin, int64_t end, int) {
    OnlyLane lane;
    for (int64_t row = begin; row < end; ++row) kernel(lane, row);
  });
}

// List of all kernels that are launched, for the files that define launch_cuda.
// NOLINTBEGIN(bugprone-macro-parentheses): a type takes no parentheses
// clang-format off
#define THINWIRE_FOR_PORTABLE_KERNELS(DO)            \
  DO(Embed)                                          \
  DO(AddRmsNorm<float>) DO(AddRmsNorm<Bf16>)         \
  DO(RmsNormBackward<float>) DO(RmsNormBackward<Bf16>) \
  DO(NormGroupsForward<float>) DO(NormGroupsForward<Bf16>) \
  DO(NormGroupsBackward<float>) DO(NormGroupsBackward<Bf16>) \
  DO(Rotate<float>) DO(Rotate<Bf16>)                 \
  DO(SwiGlu<float>) DO(SwiGlu<Bf16>)                 \
  DO(SwiGluBackward<float>) DO(SwiGluBackward<Bf16>) \
  DO(CrossEntropy<float>) DO(CrossEntropy<Bf16>)     \
  DO(TakeFromTiles) DO(PutIntoTiles) DO(StepTiles)   \
  DO(AdamwStep) DO(LookAhead) DO(StepAlong)          \
  DO(ChangeCoded<AdamwValue>) DO(ChangeCoded<LookAheadValue>) \
  DO(SquaresOfBlocks) DO(HashChunks)
// clang-format on
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace thinwire::tensor
