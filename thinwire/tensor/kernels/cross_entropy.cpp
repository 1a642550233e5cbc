#include "thinwire/tensor/kernels/cross_entropy.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>

#include "thinwire/base/block_sizes.h"
#include "thinwire/tensor/kernels/kernels.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

// The product back to the model's width is deep and small: if it were split only by rows, every
// thread would read and pack all weights. The number of parts is fixed, so the number of threads
// does not change the bits.
constexpr int64_t kDepthParts = kLogitParts;
constexpr int64_t kRowGrain = 16;

// The loss of one number; dlogit, unless null, receives its slope times the denominator.
template <typename T>
float squared_error(float logit, int32_t target, T* dlogit, float* denominator) {
  const float error = logit - std::bit_cast<float>(target);
  const float slope = 2 * error;
  if (dlogit != nullptr) kernels<T>().store_rows(1, 1, nullptr, &slope, 1, dlogit, 1);
  *denominator = 1;
  return error * error;
}

}  // namespace

template <typename T>
LinearCrossEntropy<T>::LinearCrossEntropy(int64_t width, int64_t vocabulary, int64_t max_rows,
                                          ThreadPool& threads)
    : width_(width),
      vocabulary_(vocabulary),
      chunk_(std::min(max_rows, logit_rows(vocabulary) * threads.size())),
      threads_(threads),
      logits_(chunk_ * vocabulary),
      losses_(chunk_),
      denominators_(chunk_),
      wide_(kDepthParts * chunk_ * width),
      scaled_(chunk_ * width) {}

template <typename T>
int64_t LinearCrossEntropy<T>::dlogits_stride() const {
  return std::is_same_v<T, float> ? vocabulary_ : 2 * vocabulary_;
}

template <typename T>
double LinearCrossEntropy<T>::chunk_loss(int64_t rows, const T* x, const T* weight,
                                         const int32_t* targets, const float* factors,
                                         const float* bias, bool gradients) {
  gemm(threads_, Transpose::kNo, Transpose::kYes, rows, vocabulary_, width_, x, width_, weight,
       width_, 0, logits_.data(), vocabulary_);
  threads_.for_ranges(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = logits_.data() + r * vocabulary_;
      if (bias != nullptr) kernels<float>().add(vocabulary_, bias, row);
      T* const drow = gradients ? reinterpret_cast<T*>(row) : nullptr;
      float* const denominator = denominators_.data() + r;
      losses_.data()[r] = vocabulary_ == 1 ? squared_error(*row, targets[r], drow, denominator)
                                           : kernels<T>().cross_entropy(
                                                 vocabulary_, row, targets[r], drow, denominator);
    }
  });
  double sum = 0;
  for (int64_t r = 0; r < rows; ++r) {
    sum += factors == nullptr ? losses_.data()[r] : double{factors[r]} * losses_.data()[r];
  }
  return sum;
}

template <typename T>
void LinearCrossEntropy<T>::multiply_back(int64_t rows, const T* weight) {
  const int64_t c = width_, size = rows * c;
  // The smallest number of bands of rows that gives every thread the same number of tasks.
  const int64_t bands = threads_.size() / std::gcd(int64_t{threads_.size()}, kDepthParts);
  const int64_t grains = (rows + kRowGrain - 1) / kRowGrain;
  const auto border = [&](int64_t band) {
    return std::min(rows, grains * band / bands * kRowGrain);
  };
  threads_.for_each(kDepthParts * bands, [&](int64_t task) {
    const int64_t part = task / bands, top = border(task % bands);
    const int64_t begin = vocabulary_ * part / kDepthParts;
    const int64_t end = vocabulary_ * (part + 1) / kDepthParts;
    gemm(Transpose::kNo, Transpose::kNo, border(task % bands + 1) - top, c, end - begin,
         dlogits() + top * dlogits_stride() + begin, dlogits_stride(), weight + begin * c, c, 0,
         wide_.data() + part * size + top * c, c);
  });
  threads_.for_ranges(size, 1024, [&](int64_t begin, int64_t end, int) {
    for (int64_t part = 1; part < kDepthParts; ++part) {
      kernels<T>().add(end - begin, wide_.data() + part * size + begin, wide_.data() + begin);
    }
  });
}

template <typename T>
double LinearCrossEntropy<T>::loss(int64_t rows, const T* x, const T* weight,
                                   const int32_t* targets, const float* factors, float* losses,
                                   const float* bias) {
  double sum = 0;
  for (int64_t first = 0; first < rows; first += chunk_) {
    const int64_t count = std::min(chunk_, rows - first);
    const float* const row_factors = factors == nullptr ? nullptr : factors + first;
    sum += chunk_loss(count, x + first * width_, weight, targets + first, row_factors, bias, false);
    for (int64_t r = 0; losses != nullptr && r < count; ++r) {
      losses[first + r] = losses_.data()[r] * (row_factors == nullptr ? 1 : row_factors[r]);
    }
  }
  return sum;
}

template <typename T>
double LinearCrossEntropy<T>::loss_and_gradients(int64_t rows, const T* x, const T* weight,
                                                 const int32_t* targets, const float* factors,
                                                 float scale, T* dx, float keep, float* dweight,
                                                 const float* bias) {
  const Kernels<T>& kernel = kernels<T>();
  const int64_t c = width_;
  double sum = 0;
  bias_gradient_.assign(bias == nullptr ? 0 : static_cast<size_t>(vocabulary_), 0.0f);
  for (int64_t first = 0; first < rows; first += chunk_) {
    const int64_t count = std::min(chunk_, rows - first);
    const float* const row_factors = factors == nullptr ? nullptr : factors + first;
    sum += chunk_loss(count, x + first * c, weight, targets + first, row_factors, bias, true);
    multiply_back(count, weight);
    // Applies the denominators that the rows of the logits' gradients lack, on the narrow side of
    // both products.
    threads_.for_ranges(count, 1, [&](int64_t begin, int64_t end, int) {
      const int64_t part = end - begin, at = (first + begin) * c;
      float* const inverse = denominators_.data() + begin;
      float* const wide = wide_.data() + begin * c;
      for (int64_t r = 0; r < part; ++r) inverse[r] = scale / inverse[r];
      if (row_factors != nullptr) {
        for (int64_t r = 0; r < part; ++r) inverse[r] *= row_factors[begin + r];
      }
      kernel.store_rows(part, c, inverse, wide, c, dx + at, c);
      kernel.load_rows(part, c, nullptr, x + at, c, wide, c);
      kernel.store_rows(part, c, inverse, wide, c, scaled_.data() + begin * c, c);
    });
    if (bias != nullptr) sum_bias_gradient(count);
    if (dweight == nullptr) continue;
    gemm(threads_, Transpose::kYes, Transpose::kNo, vocabulary_, c, count, dlogits(),
         dlogits_stride(), static_cast<const T*>(scaled_.data()), c, first == 0 ? keep : 1.0f,
         dweight, c);
  }
  return sum;
}

template <typename T>
void LinearCrossEntropy<T>::sum_bias_gradient(int64_t rows) {
  std::vector<float> row(bias_gradient_.size());
  for (int64_t r = 0; r < rows; ++r) {
    kernels<T>().load_rows(1, vocabulary_, denominators_.data() + r,
                           dlogits() + r * dlogits_stride(), vocabulary_, row.data(), vocabulary_);
    kernels<float>().add(vocabulary_, row.data(), bias_gradient_.data());
  }
}

template <typename T>
void LinearCrossEntropy<T>::add_bias_gradient(float* dbias) const {
  kernels<float>().add(static_cast<int64_t>(bias_gradient_.size()), bias_gradient_.data(), dbias);
}

template <typename T>
size_t LinearCrossEntropy<T>::bytes() const {
  return logits_.bytes() + losses_.bytes() + denominators_.bytes() + wide_.bytes() +
         scaled_.bytes();
}

template class LinearCrossEntropy<float>;
template class LinearCrossEntropy<Bf16>;

}  // namespace thinwire::tensor
