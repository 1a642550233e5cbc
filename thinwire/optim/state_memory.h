// The memory of an optimizer's state. Its layout follows from the optimizer's spec alone, so that
// the memory used is the memory predicted.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/agreement.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/offload.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/optim/state_values.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/two_sided.h"

namespace thinwire::optim {

// E.g. "adamw.m"; its agreement holds if all replicas are fed the same gradients. With 8 bits the
// codes have this name and the exponents of their blocks "adamw.m.exponents".
using OptimizerState = StateTensor;

// Initially zero. All pieces with the same name are next to each other, in the order of the
// parameters and in the format given by the options.
class StateMemory {
 public:
  StateMemory(const method::OptimizerOptions& options, const tensor::Layout& params);

  // The piece with this index in the list that OptimizerSpec::state gives for the tensor.
  StateValues piece(size_t tensor, size_t index);
  // The same where only `count` values from `begin` on, a multiple of kStateBlock, will be used.
  StateValues piece(size_t tensor, size_t index, int64_t begin, int64_t count);

  // Whether all values are in memory in fp32, so that they may have a copy on a device.
  bool can_mirror() const;
  // Adds the copy (once; later calls do nothing). Throws Error if the device lacks memory.
  void mirror_on(const tensor::DevicePlace& device);
  // The values of a piece there, to be changed.
  float* device_piece(size_t tensor, size_t index);

  std::vector<OptimizerState> all();
  void clear();

 private:
  // Sizes and offsets are in elements, gaps included.
  struct Group {
    std::string_view name;
    Agreement agreement;
    method::StateKind kind;
    StateFormat format;
    int64_t size = 0;
    tensor::AlignedBuffer<uint8_t> values = {};     // fp32, bf16 or codes
    tensor::AlignedBuffer<uint8_t> exponents = {};  // of the codes' blocks
    tensor::TwoSided sides = {};                    // of the values
  };
  struct Place {
    size_t group;
    int64_t offset;
    int64_t size;
  };

  void allocate(Group& group) const;
  void touch(const Group& group, int64_t offset, int64_t count) const;

  uint64_t seed_;
  std::shared_ptr<Offload> offload_;  // null: in memory
  std::deque<Group> groups_;
  std::vector<std::vector<Place>> places_;  // by tensor: its pieces
};

}  // namespace thinwire::optim
