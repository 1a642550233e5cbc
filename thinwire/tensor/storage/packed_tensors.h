// The tensors of an arena in kNf4: matrices of the blocks in NF4 (tensor/kernels/nf4.h), all others
// in bf16, one behind another in one piece of memory. Values are named by their offsets in the
// arena's layout, as if they were not encoded.
//
// Reading may be done by any number of threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/offload.h"
#include "thinwire/tensor/kernels/nf4.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/layout.h"

namespace thinwire::tensor {

class PackedTensors {
 public:
  // All values are 0. The layout must outlive it.
  PackedTensors(const Layout& layout, const std::shared_ptr<Offload>& offload);

  std::span<const uint8_t> bytes() const { return {memory_.data(), memory_.bytes()}; }
  // What holds `count` values of one tensor from `offset` on; of a matrix in NF4 all of it.
  std::span<const uint8_t> memory(int64_t offset, int64_t count) const;

  // All values of a tensor: encodes them, or rounds them to nearest.
  void set(size_t index, std::span<const float> values);
  // The same from one with the same layout.
  void copy(size_t index, const PackedTensors& from);
  // Values of one tensor from `offset` on.
  void read(int64_t offset, std::span<float> to) const;

  // The values of a tensor in bf16.
  const Bf16* bf16_at(int64_t offset) const;
  // The matrices in NF4 of which the first begins at `offset`, and which have `rows` rows one
  // behind another; empty if the tensor is in bf16.
  std::span<const Nf4Matrix> matrices_at(int64_t offset, int64_t rows) const;

 private:
  // The tensor to which the value at this offset belongs.
  size_t containing(int64_t offset) const;
  int64_t size(size_t index) const { return begins_[index + 1] - begins_[index]; }
  uint8_t* at(size_t index) { return memory_.data() + begins_[index]; }

  const Layout* layout_;
  std::vector<int64_t> begins_;  // of each tensor in memory_, and its end
  AlignedBuffer<uint8_t> memory_;
  std::vector<Nf4Matrix> matrices_;  // of each tensor; null where it is in bf16
};

}  // namespace thinwire::tensor
