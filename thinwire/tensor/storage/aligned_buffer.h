// Plain memory aligned to 64 bytes: vector loads never straddle lines, and a BLAS whose sums depend
// on alignment gives the same bits every time. Large buffers ask for huge pages: a tile of a matrix
// touches one small page per row, too many for the TLB. Not initialised. Or, with an Offload, in a
// file (base/offload.h), zeroed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

#include "thinwire/base/offload.h"

namespace thinwire::tensor {

// Frees what allocate_aligned() returned.
struct FreeAligned {
  std::shared_ptr<Offload> offload = {};
  bool foreign = false;  // the memory is somebody else's and is left alone
  void operator()(void* data) const {
    if (foreign) return;
    offload ? offload->deallocate(data) : std::free(data);
  }
};

// At least `bytes` of such memory; null for 0. Throws std::bad_alloc, or Error if the files cannot
// be made.
template <typename T>
using AlignedMemory = std::unique_ptr<T[], FreeAligned>;
void* allocate_aligned(size_t bytes, Offload* offload = nullptr);

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t count, const std::shared_ptr<Offload>& offload = {})
      : bytes_(static_cast<size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(allocate_aligned(bytes_, offload.get())), FreeAligned{offload}) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
  AlignedMemory<T> data_;
};

}  // namespace thinwire::tensor
