// The memory of an optimizer's state, laid out only by the optimizer's facts, so that the memory
// used is the memory predicted.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/base/agreement.h"
#include "thinwire/base/named_span.h"
#include "thinwire/method/optimizer.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::optim {

// E.g. "adamw.m"; its agreement holds if all replicas are fed the same gradients.
using OptimizerState = StateTensor;

// Initially zero. All pieces with the same name are in one arena, in the order of the parameters.
class StateMemory {
 public:
  StateMemory(const method::OptimizerOptions& options, const tensor::Layout& params);

  // The piece with this index in the list that OptimizerSpec::state gives for the tensor.
  std::span<float> piece(size_t tensor, size_t index);
  std::vector<OptimizerState> all();
  void clear();

 private:
  // The arena refers to the layout.
  struct Group {
    Group(std::string_view called, Agreement kind, std::vector<TensorSpec> specs);
    std::string name;
    Agreement agreement;
    tensor::Layout layout;
    tensor::Arena values;
  };
  struct Place {
    size_t group;
    size_t tensor;  // of the group
  };

  std::deque<Group> groups_;
  std::vector<std::vector<Place>> places_;  // by tensor: its pieces
};

}  // namespace thinwire::optim
