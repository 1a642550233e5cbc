// Plain memory aligned to 64 bytes: vector loads never straddle lines, and a BLAS whose sums depend
// on alignment gives the same bits every time. Not initialised.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace thinwire::tensor {

template <typename T>
class AlignedBuffer {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(int64_t count) : bytes_(round_up(static_cast<size_t>(count) * sizeof(T))) {
    if (bytes_ == 0) return;
    data_.reset(static_cast<T*>(std::aligned_alloc(kAlignment, bytes_)));
    if (!data_) throw std::bad_alloc();
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  size_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t round_up(size_t bytes) {
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  struct Free {
    void operator()(T* data) const { std::free(data); }
  };

  size_t bytes_ = 0;
  std::unique_ptr<T[], Free> data_;
};

}  // namespace thinwire::tensor
