#include <algorithm>
#include <vector>

#include "thinwire/base/simd.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

THINWIRE_CLONES void add_scaled(const float* __restrict from, float factor, float* __restrict to,
                                int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

}  // namespace

void add_factors(std::span<float> w, std::span<const float> a, std::span<const float> b,
                 int64_t rank, float scale, ThreadPool& threads) {
  const int64_t columns = static_cast<int64_t>(a.size()) / rank;
  const int64_t rows = static_cast<int64_t>(b.size()) / rank;
  threads.for_ranges(rows, 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> sums(static_cast<size_t>(columns));
    for (int64_t row = begin; row < end; ++row) {
      std::ranges::fill(sums, 0.0f);
      for (int64_t k = 0; k < rank; ++k) {
        add_scaled(a.data() + k * columns, b[static_cast<size_t>(row * rank + k)], sums.data(),
                   columns);
      }
      add_scaled(sums.data(), scale, w.data() + row * columns, columns);
    }
  });
}

}  // namespace thinwire::tensor
