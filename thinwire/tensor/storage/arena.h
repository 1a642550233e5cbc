// One allocation for all parameters (or gradients, or moments) of a model, so that optimizers,
// digests and payload encoders make one pass over contiguous memory; and its layout, which says
// where each tensor is.
#pragma once

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/half.h"
#include "thinwire/base/number_format.h"
#include "thinwire/base/offload.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/kernels/encoded.h"
#include "thinwire/tensor/storage/aligned_buffer.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::tensor {

// In a joined layout the offsets of frozen tensors begin here, beyond any arena.
inline constexpr int64_t kFrozenOffset = int64_t{1} << 60;

// Offsets are in elements and multiples of 16 (a 64-byte line of fp32); the
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

// The tensors of an arena in kNf4 or kInt8: matrices of the blocks encoded
// (tensor/kernels/encoded.h), all others in bf16, one behind another in one piece of memory. Values
// are named by their offsets in the arena's layout, as if they were not encoded.
//
// Reading may be done by any number of threads at once.
class PackedTensors {
 public:
  // All values are 0. The layout must outlive it.
  PackedTensors(const Layout& layout, WeightFormat format, const std::shared_ptr<Offload>& offload);

  std::span<const uint8_t> bytes() const { return {memory_.data(), memory_.bytes()}; }
  std::span<uint8_t> bytes() { return {memory_.data(), memory_.bytes()}; }
  // What holds `count` values of one tensor from `offset` on; of an encoded matrix all of it.
  std::span<const uint8_t> memory(int64_t offset, int64_t count) const;

  // All values of a tensor: encodes them, or rounds them to nearest.
  void set(size_t index, std::span<const float> values);
  // The same from one with the same layout.
  void copy(size_t index, const PackedTensors& from);
  // Values of one tensor from `offset` on.
  void read(int64_t offset, std::span<float> to) const;

  // The values of a tensor in bf16.
  const Bf16* bf16_at(int64_t offset) const;
  // The encoded matrices of which the first begins at `offset`, and which have `rows` rows one
  // behind another; empty if the tensor is in bf16.
  std::span<const EncodedMatrix> matrices_at(int64_t offset, int64_t rows) const;

 private:
  // The tensor to which the value at this offset belongs.
  size_t containing(int64_t offset) const;
  int64_t size(size_t index) const { return begins_[index + 1] - begins_[index]; }
  uint8_t* at(size_t index) { return memory_.data() + begins_[index]; }

  const Layout* layout_;
  WeightFormat format_;
  std::vector<int64_t> begins_;  // of each tensor in memory_, and its end
  AlignedBuffer<uint8_t> memory_;
  std::vector<EncodedMatrix> matrices_;  // of each tensor; null where it is in bf16
};

// Host memory that may have a copy on a device. Using either side gives the newest values: they are
// copied if the other side was used for writing since. So all code may use the host's side at any
// time, and values that are only used on the device cost no copies.

// Pointers to a side are valid until the other side is used. Several threads may use a side at once
// only after one of them has used it before.
class TwoSided {
 public:
  // Adds the copy on `device` (once; later calls do nothing) of memory that must stay in place
  // while this exists. Throws Error if the device lacks memory.
  void mirror_on(const DevicePlace& device, std::span<std::byte> host);
  // Where the copy is; null if there is none.
  const DevicePlace* device() const { return mirror_ == nullptr ? nullptr : &place_; }

  // Brings the host's side up to date, and marks the device's as out of date if `writes`.
  void use_host(bool writes) const {
    if (mirror_ != nullptr) use(Side::kHost, writes);
  }
  // The same, the other way round; only with a copy.
  void* use_device(bool writes) const {
    use(Side::kDevice, writes);
    return mirror_->data();
  }
  // Brings these bytes of the host's side up to date, and no others. Only for reading.
  void read_host(size_t begin, size_t bytes) const;
  // Zeroes the device's side, which then is the newest; only with a copy.
  void clear_device();

 private:
  enum class Side : uint8_t { kHost, kDevice, kBoth };
  void use(Side side, bool writes) const;

  DevicePlace place_;
  size_t bytes_ = 0;
  std::unique_ptr<Mirror> mirror_;
  mutable Side newest_ = Side::kBoth;
};

// fp32 memory for a layout, zeroed, aligned to 64 bytes. The layout must outlive the arena. With an
// Offload it is in a file; code that uses whole tensors touches them first.
//
// An arena may instead hold bf16 values without an fp32 copy, or encoded ones: then only layout(),
// format() and the functions marked as such below may be used.
//
// An arena may have a second copy of its values in a device's memory (TwoSided): all(), tensor()
// and view() use the host's side, device_values() the device's.
class Arena {
 public:
  explicit Arena(const Layout& layout, WeightFormat format = WeightFormat::kF32,
                 std::shared_ptr<Offload> offload = {});
  // fp32 values in memory of somebody else, which outlives the arena: layout.total() of them,
  // aligned to 64 bytes. They are set to zero.
  Arena(const Layout& layout, std::span<float> memory);

  const Layout& layout() const { return *layout_; }
  WeightFormat format() const { return format_; }
  // Null if the values are in memory.
  const std::shared_ptr<Offload>& offload() const { return offload_; }
  // Offload::touch for values of the layout, if there is one.
  void touch(int64_t offset, int64_t count, bool writes) const;
  // Offload::release likewise.
  void release(int64_t offset, int64_t count) const;
  void touch_tensor(size_t index, bool writes) const {
    touch(layout_->offset(index), layout_->specs()[index].count(), writes);
  }

  // The values of a bf16 arena, in the layout's order.
  Bf16* bf16() { return bf16_.data(); }
  const Bf16* bf16() const { return bf16_.data(); }
  // The values of an encoded arena, and those of a tensor that is kept in bf16, of such an arena or
  // one in bf16, from `offset` on.
  const PackedTensors& packed() const { return *packed_; }
  const Bf16* bf16_at(int64_t offset) const;
  // For all formats: the memory; a part of it, from a byte on, as an arena with the same layout and
  // format has it; a tensor's new values from fill(), rounded to nearest in bf16 or
  // encoded; those of an arena with the same layout; fp32 values from offset `begin` of the
  // layout on, of an encoded arena of one tensor.
  std::span<const uint8_t> bytes() const;
  void set_bytes(size_t begin, std::span<const uint8_t> values);
  void fill_tensor(size_t index, const std::function<void(std::span<float>)>& fill);
  void assign(const Arena& values);
  void read(int64_t begin, std::span<float> to) const;

  std::span<float> all() {
    assert(format_ == WeightFormat::kF32);
    sides_.use_host(true);
    invalidate_rounded();
    return {data_.get(), static_cast<size_t>(layout_->total())};
  }
  std::span<const float> all() const {
    assert(format_ == WeightFormat::kF32);
    sides_.use_host(false);
    return {data_.get(), static_cast<size_t>(layout_->total())};
  }
  // Values [begin, begin + count); with a copy on a device, only these are copied from it.
  std::span<const float> range(int64_t begin, int64_t count) const;
  std::span<float> tensor(size_t index);
  std::span<const float> tensor(size_t index) const;
  TensorView view(size_t index);

  // Adds the copy on `device` (once; later calls do nothing). Throws Error if there is not enough
  // memory.
  void mirror_on(const DevicePlace& device);
  // Where the copy is; null if there is none.
  const DevicePlace* device() const { return sides_.device(); }
  // The values on the device, in the layout's order; only where device() is not null.
  float* device_values();
  const float* device_values() const;

  // Registers a bf16 copy of the values, owned by the code that multiplies with it (null: none), of
  // those tensors for which `kept` is true. Code that updates a tensor may round it into its place
  // in the copy (null: not kept) in the same pass, and call set_rounded_current() after the last;
  // any later access for writing makes the copy out of date.
  void keep_rounded(Bf16* copy, std::vector<bool> kept);
  Bf16* rounded_tensor(size_t index) const {
    return rounded_ != nullptr && rounded_kept_[index] ? rounded_ + layout_->offset(index)
                                                       : nullptr;
  }
  Bf16* rounded() const { return rounded_; }
  void set_rounded_current() { rounded_current_ = true; }
  // Whether this is the registered copy and holds the current values.
  bool is_current(const Bf16* copy) const { return copy == rounded_ && rounded_current_; }

  // Sets all values to zero; with a copy on a device only there, without touching the host's side.
  void clear();

 private:
  // The memory of `count` values from `offset` on, of an encoded arena of one tensor.
  std::span<const uint8_t> memory(int64_t offset, int64_t count) const;
  void assign_tensors(const Arena& values);
  // Several threads may access the values at once.
  void invalidate_rounded() {
    if (rounded_ == nullptr) return;
    std::atomic_ref<bool>(rounded_current_).store(false, std::memory_order_relaxed);
  }

  const Layout* layout_;
  WeightFormat format_;
  std::shared_ptr<Offload> offload_;
  AlignedMemory<float> data_;            // null in other formats than fp32
  AlignedBuffer<Bf16> bf16_;             // empty in other formats than bf16
  std::optional<PackedTensors> packed_;  // none in formats that are not encoded
  TwoSided sides_;                       // declared after the memory that it refers to
  Bf16* rounded_ = nullptr;
  std::vector<bool> rounded_kept_;  // by tensor
  bool rounded_current_ = false;
};

// Fills a tensor with normally distributed values. Every tensor has its own random stream, so the
// values depend only on seed, name and shape. deviation 0: all values are the mean.
void draw_normal(Arena& arena, size_t index, uint64_t seed, double mean, double deviation,
                 ThreadPool& threads);

}  // namespace thinwire::tensor
