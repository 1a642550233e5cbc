// Plain memory aligned to 64 bytes: vector loads never straddle lines, and a BLAS whose sums depend
// on alignment gives the same bits every time. Large buffers ask for huge pages: a tile of a matrix
// touches one small page per row, too many for the TLB. Not initialised.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <type_traits>

namespace thinwire::tensor {

// At least `bytes` of such memory, to be freed with std::free; null for 0. Throws std::bad_alloc.
void* allocate_aligned(size_t bytes);

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t count)
      : bytes_(static_cast<size_t>(count) * sizeof(T)),
        data_(static_cast<T*>(allocate_aligned(bytes_))) {}

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };

  size_t bytes_ = 0;
  std::unique_ptr<T[], Free> data_;
};

}  // namespace thinwire::tensor
