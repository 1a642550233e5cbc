// Kernels by a block of threads on the CPU, as on a GPU.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

#include "thinwire/tensor/kernels/portable_kernels.h"

namespace thinwire::tensor {

// What the lanes of a block share.
struct Block {
  explicit Block(int64_t threads) : barrier(threads), values(static_cast<size_t>(threads)) {}
  std::barrier<> barrier;
  std::vector<float> values;
};

// The counterpart of OnlyLane for one thread of a block.
class ThreadLane {
 public:
  ThreadLane(Block& block, int64_t index) : block_(block), index_(index) {}
  int64_t index() const { return index_; }
  int64_t count() const { return std::ssize(block_.values); }
  float sum(float value) {
    return over_block(value, [](float a, float b) { return a + b; });
  }
  float maximum(float value) {
    return over_block(value, [](float a, float b) { return std::max(a, b); });
  }
  void barrier() { block_.barrier.arrive_and_wait(); }

 private:
  template <typename Combine>
  float over_block(float value, Combine combine) {
    barrier();  // the last call's values have been read
    block_.values[static_cast<size_t>(index_)] = value;
    barrier();
    value = block_.values[0];
    for (size_t i = 1; i < block_.values.size(); ++i) value = combine(value, block_.values[i]);
    return value;
  }

  Block& block_;
  int64_t index_;
};

// Calls the kernel for all rows with a block of so many threads.
template <typename Kernel>
void by_block(int64_t count, const Kernel& kernel, int64_t rows) {
  Block block(count);
  std::vector<std::jthread> threads;
  for (int64_t index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      ThreadLane lane(block, index);
      for (int64_t row = 0; row < rows; ++row) kernel(lane, row);
    });
  }
}

// The same with one lane.
template <typename Kernel>
void by_one(const Kernel& kernel, int64_t rows) {
  OnlyLane lane;
  for (int64_t row = 0; row < rows; ++row) kernel(lane, row);
}

}  // namespace thinwire::tensor
