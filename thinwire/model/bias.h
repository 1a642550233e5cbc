// The bias of a product: one vector for each of the matrices whose outputs are side by side
// (linear.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {

class Bias {
 public:
  struct Part {
    tensor::GradientRange range;  // in the arena
    int64_t column;               // the first output that it is added to
  };

  Bias() = default;  // none
  // The tensors of these names, in this order.
  Bias(const tensor::Layout& layout, const std::vector<std::string>& names) {
    int64_t column = 0;
    for (const std::string& name : names) {
      const size_t index = layout.find(name);
      const int64_t count = layout.specs()[index].count();
      parts_.push_back({{layout.offset(index), count}, column});
      column += count;
    }
  }

  std::span<const Part> parts() const { return parts_; }

 private:
  std::vector<Part> parts_;
};

}  // namespace thinwire::model
