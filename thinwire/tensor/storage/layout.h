// Where the tensors of a model are in an arena (tensor/storage/arena.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/tensor_view.h"

namespace thinwire::tensor {

// In a joined layout the offsets of frozen tensors begin here, beyond any arena.
inline constexpr int64_t kFrozenOffset = int64_t{1} << 60;

// Where each tensor is. Offsets are in elements and multiples of 16 (a 64-byte line of fp32); the
// gaps are zero and stay zero.
class Layout {
 public:
  explicit Layout(std::vector<TensorSpec> specs);
  // For finding the tensors of two arenas by name: those of `trained` at their offsets, then those
  // of `frozen` from kFrozenOffset on. total() is that of `trained`.
  static Layout joined(const Layout& trained, const Layout& frozen);

  std::span<const TensorSpec> specs() const { return specs_; }
  size_t size() const { return specs_.size(); }
  int64_t offset(size_t index) const { return offsets_[index]; }
  int64_t total() const { return total_; }  // elements, gaps included
  // Index of the tensor that begins at this offset of an arena.
  size_t at(int64_t offset) const;
  // Index of a tensor by name; throws Error when there is none.
  size_t find(std::string_view name) const;
  // The same; nullopt when there is none.
  std::optional<size_t> index_of(std::string_view name) const;

 private:
  void sort_names();

  std::vector<TensorSpec> specs_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> by_name_;  // indices, in the order of the names
  int64_t total_ = 0;
};

}  // namespace thinwire::tensor
