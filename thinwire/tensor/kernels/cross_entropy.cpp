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
float squared_error(float logit, int32_t target, T* dlogit, SoftmaxSum* sum) {
  const float error = logit - std::bit_cast<float>(target);
  const float slope = 2 * error;
  if (dlogit != nullptr) kernels<T>().store_rows(1, 1, nullptr, &slope, 1, dlogit, 1);
  *sum = {.shift = 0, .denominator = 1};
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
      sums_(static_cast<size_t>(max_rows)),
      multipliers_(max_rows),
      wide_(kDepthParts * chunk_ * width),
      scaled_(chunk_ * width) {}

template <typename T>
int64_t LinearCrossEntropy<T>::dlogits_stride(int64_t columns) {
  return std::is_same_v<T, float> ? columns : 2 * columns;
}

template <typename T>
double LinearCrossEntropy<T>::chunk_loss(int64_t first, int64_t rows, const T* x, const T* weight,
                                         const int32_t* targets, const float* factors,
                                         const float* bias, bool gradients) {
  SoftmaxSum* const sums = sums_.data() + first;
  gemm(threads_, Transpose::kNo, Transpose::kYes, rows, vocabulary_, width_, x, width_, weight,
       width_, 0, logits_.data(), vocabulary_);
  threads_.for_ranges(rows, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = logits_.data() + r * vocabulary_;
      if (bias != nullptr) kernels<float>().add(vocabulary_, bias, row);
      T* const drow = gradients ? reinterpret_cast<T*>(row) : nullptr;
      losses_.data()[r] = vocabulary_ == 1 ? squared_error(*row, targets[r], drow, sums + r)
                                           : kernels<T>().cross_entropy(vocabulary_, row,
                                                                        targets[r], drow, sums + r);
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
  const int64_t c = width_, size = rows * c, stride = dlogits_stride(vocabulary_);
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
         dlogits() + top * stride + begin, stride, weight + begin * c, c, 0,
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
    sum += chunk_loss(first, count, x + first * width_, weight, targets + first, row_factors, bias,
                      false);
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
  const int64_t c = width_;
  double sum = 0;
  bias_gradient_.assign(bias == nullptr ? 0 : static_cast<size_t>(vocabulary_), 0.0f);
  for (int64_t first = 0; first < rows; first += chunk_) {
    const int64_t count = std::min(chunk_, rows - first);
    const float* const row_factors = factors == nullptr ? nullptr : factors + first;
    sum +=
        chunk_loss(first, count, x + first * c, weight, targets + first, row_factors, bias, true);
    multiply_back(count, weight);
    // Applies the denominators that the rows of the logits' gradients lack, on the narrow side of
    // both products.
    threads_.for_ranges(count, 1, [&](int64_t begin, int64_t end, int) {
      float* const multipliers = multipliers_.data() + first;
      for (int64_t r = begin; r < end; ++r) {
        multipliers[r] = scale / sums_[static_cast<size_t>(first + r)].denominator;
      }
      if (row_factors != nullptr) {
        for (int64_t r = begin; r < end; ++r) multipliers[r] *= row_factors[r];
      }
      kernels<T>().store_rows(end - begin, c, multipliers + begin, wide_.data() + begin * c, c,
                              dx + (first + begin) * c, c);
      if (dweight != nullptr) scale_inputs(begin, end, x + first * c, multipliers);
    });
    if (bias != nullptr) sum_bias_gradient(first, count);
    if (dweight == nullptr) continue;
    gemm(threads_, Transpose::kYes, Transpose::kNo, vocabulary_, c, count, dlogits(),
         dlogits_stride(vocabulary_), static_cast<const T*>(scaled_.data()), c,
         first == 0 ? keep : 1.0f, dweight, c);
  }
  return sum;
}

template <typename T>
void LinearCrossEntropy<T>::scale_inputs(int64_t begin, int64_t end, const T* x,
                                         const float* multipliers) {
  const int64_t rows = end - begin, at = begin * width_;
  float* const wide = wide_.data() + at;
  kernels<T>().load_rows(rows, width_, nullptr, x + at, width_, wide, width_);
  kernels<T>().store_rows(rows, width_, multipliers + begin, wide, width_, scaled_.data() + at,
                          width_);
}

template <typename T>
void LinearCrossEntropy<T>::weight_gradient(int64_t rows, const T* x, const T* weight,
                                            const int32_t* targets, int64_t first, int64_t count,
                                            float keep, float* dweight) {
  const int64_t c = width_;
  for (int64_t top = 0; top < rows; top += chunk_) {
    const int64_t height = std::min(chunk_, rows - top);
    gemm(threads_, Transpose::kNo, Transpose::kYes, height, count, c, x + top * c, c,
         weight + first * c, c, 0, logits_.data(), count);
    threads_.for_ranges(height, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        float* const row = logits_.data() + r * count;
        kernels<T>().cross_entropy_again(count, row, targets[top + r] - first,
                                         sums_[static_cast<size_t>(top + r)],
                                         reinterpret_cast<T*>(row));
      }
      scale_inputs(begin, end, x + top * c, multipliers_.data() + top);
    });
    gemm(threads_, Transpose::kYes, Transpose::kNo, count, c, height, dlogits(),
         dlogits_stride(count), static_cast<const T*>(scaled_.data()), c, top == 0 ? keep : 1.0f,
         dweight, c);
  }
}

template <typename T>
void LinearCrossEntropy<T>::sum_bias_gradient(int64_t first, int64_t rows) {
  std::vector<float> row(bias_gradient_.size());
  for (int64_t r = 0; r < rows; ++r) {
    kernels<T>().load_rows(1, vocabulary_, multipliers_.data() + first + r,
                           dlogits() + r * dlogits_stride(vocabulary_), vocabulary_, row.data(),
                           vocabulary_);
    kernels<float>().add(vocabulary_, row.data(), bias_gradient_.data());
  }
}

template <typename T>
void LinearCrossEntropy<T>::add_bias_gradient(float* dbias) const {
  kernels<float>().add(static_cast<int64_t>(bias_gradient_.size()), bias_gradient_.data(), dbias);
}

template <typename T>
size_t LinearCrossEntropy<T>::bytes() const {
  return logits_.bytes() + losses_.bytes() + sums_.size() * sizeof(SoftmaxSum) +
         multipliers_.bytes() + wide_.bytes() + scaled_.bytes();
}

template class LinearCrossEntropy<float>;
template class LinearCrossEntropy<Bf16>;

}  // namespace thinwire::tensor
