#include "thinwire/tensor/cross_entropy.h"

#include <algorithm>
#include <type_traits>

#include "thinwire/tensor/gemm.h"
#include "thinwire/tensor/kernels.h"

namespace thinwire::tensor {
namespace {

// Rows in a chunk for each thread: few where that keeps a small vocabulary's logits in the second
// cache, else enough to pay for reading all weights and their gradients once a chunk.
int64_t chunk_rows(int64_t vocabulary) {
  constexpr int64_t kFew = 128, kMany = 256;
  constexpr int64_t kCached = 2 << 20;  // bytes
  return kFew * vocabulary * static_cast<int64_t>(sizeof(float)) <= kCached ? kFew : kMany;
}

}  // namespace

template <typename T>
LinearCrossEntropy<T>::LinearCrossEntropy(int64_t width, int64_t vocabulary, int64_t max_rows,
                                          ThreadPool& threads)
    : width_(width),
      vocabulary_(vocabulary),
      chunk_(std::min(max_rows, chunk_rows(vocabulary) * threads.size())),
      threads_(threads),
      logits_(chunk_ * vocabulary),
      losses_(chunk_) {
  if constexpr (!std::is_same_v<T, float>) rounded_ = AlignedBuffer<Bf16>(chunk_ * vocabulary);
}

template <typename T>
T* LinearCrossEntropy<T>::dlogits() {
  if constexpr (std::is_same_v<T, float>) {
    return logits_.data();
  } else {
    return rounded_.data();
  }
}

template <typename T>
double LinearCrossEntropy<T>::chunk_loss(int64_t rows, const T* x, const T* weight,
                                         const int32_t* targets, float scale, bool gradients) {
  gemm(threads_, Transpose::kNo, Transpose::kYes, rows, vocabulary_, width_, x, width_, weight,
       width_, 0, logits_.data(), vocabulary_);
  T* const gradient = gradients ? dlogits() : nullptr;
  threads_.for_ranges(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      losses_.data()[r] =
          kernels<T>().cross_entropy(vocabulary_, logits_.data() + r * vocabulary_, targets[r],
                                     scale, gradients ? gradient + r * vocabulary_ : nullptr);
    }
  });
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) sum += losses_.data()[r];
  return sum;
}

template <typename T>
double LinearCrossEntropy<T>::loss(int64_t rows, const T* x, const T* weight,
                                   const int32_t* targets) {
  double sum = 0;
  for (int64_t first = 0; first < rows; first += chunk_) {
    const int64_t count = std::min(chunk_, rows - first);
    sum += chunk_loss(count, x + first * width_, weight, targets + first, 0, false);
  }
  return sum;
}

template <typename T>
double LinearCrossEntropy<T>::loss_and_gradients(int64_t rows, const T* x, const T* weight,
                                                 const int32_t* targets, float scale, T* dx,
                                                 float* dweight) {
  double sum = 0;
  for (int64_t first = 0; first < rows; first += chunk_) {
    const int64_t count = std::min(chunk_, rows - first);
    const T* const chunk = x + first * width_;
    sum += chunk_loss(count, chunk, weight, targets + first, scale, true);
    gemm(threads_, Transpose::kNo, Transpose::kNo, count, width_, vocabulary_,
         static_cast<const T*>(dlogits()), vocabulary_, weight, width_, 0, dx + first * width_,
         width_);
    gemm(threads_, Transpose::kYes, Transpose::kNo, vocabulary_, width_, count,
         static_cast<const T*>(dlogits()), vocabulary_, chunk, width_, 1, dweight, width_);
  }
  return sum;
}

template <typename T>
size_t LinearCrossEntropy<T>::bytes() const {
  return logits_.bytes() + losses_.bytes() + rounded_.bytes();
}

template class LinearCrossEntropy<float>;
template class LinearCrossEntropy<Bf16>;

}  // namespace thinwire::tensor
