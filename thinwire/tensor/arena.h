// One allocation for all parameters (or gradients, or moments) of a model, so that optimizers,
// digests and payload encoders make one pass over contiguous memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"

namespace thinwire::tensor {

// Where each tensor lies. Offsets are in elements and multiples of 16 (a 64-byte line of fp32); the
// gaps are zero and stay zero.
class Layout {
 public:
  explicit Layout(std::vector<TensorSpec> specs);

  std::span<const TensorSpec> specs() const { return specs_; }
  size_t size() const { return specs_.size(); }
  int64_t offset(size_t index) const { return offsets_[index]; }
  int64_t total() const { return total_; }  // elements, gaps included
  // Index of a tensor by name; throws Error when there is none.
  size_t find(std::string_view name) const;

 private:
  std::vector<TensorSpec> specs_;
  std::vector<int64_t> offsets_;
  int64_t total_ = 0;
};

// fp32 memory for a layout, zeroed, aligned to 64 bytes. The layout outlives the arena.
class Arena {
 public:
  explicit Arena(const Layout& layout);

  const Layout& layout() const { return *layout_; }
  std::span<float> all() { return {data_.get(), static_cast<size_t>(layout_->total())}; }
  std::span<const float> all() const {
    return {data_.get(), static_cast<size_t>(layout_->total())};
  }
  std::span<float> tensor(size_t index);
  std::span<const float> tensor(size_t index) const;
  TensorView view(size_t index);

 private:
  struct Free {
    void operator()(float* data) const;
  };
  const Layout* layout_;
  std::unique_ptr<float[], Free> data_;
};

}  // namespace thinwire::tensor
