// The best speeds of this machine's CPU that limit training steps: matrix products and memory.
#pragma once

namespace thinwire::bench {

struct MachineSpeed {
  int threads = 0;
  double gemm_fp32 = 0;  // FLOP/s of a large product, 2 m n k over its time
  double gemm_bf16 = 0;  // bf16 operands, fp32 result
  double read = 0;       // bytes/s read from memory far larger than the caches
  double copy = 0;       // bytes/s read plus bytes/s written by a plain copy
};

// Each figure is the best of many repetitions within `seconds`, with `thread_count` threads, using
// the functions that training steps call. Needs 0.5 GB of memory meanwhile.
MachineSpeed measure_machine(int thread_count, double seconds = 0.5);

}  // namespace thinwire::bench
