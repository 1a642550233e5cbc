// Host memory that may have a copy on a device. Using either side gives the newest values: they are
// copied if the other side was used for writing since. So all code may use the host's side at any
// time, and values that are only used on the device cost no copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "thinwire/tensor/storage/device.h"
#include "thinwire/tensor/storage/mirror.h"

namespace thinwire::tensor {

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

}  // namespace thinwire::tensor
