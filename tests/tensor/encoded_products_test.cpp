#include <gtest/gtest.h>

#include <vector>

#include "tests/tensor/gemm_cases.h"
#include "tests/tensor/numbers.h"
#include "thinwire/base/names.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

// Encoded matrices whose rows are one behind another, and the same decoded.
struct Stack {
  Stack(WeightFormat format, const std::vector<int64_t>& rows, int64_t columns) {
    for (const int64_t count : rows) {
      const auto values = random_values<float>(count * columns, 7 + static_cast<uint64_t>(count));
      encoded.emplace_back(static_cast<size_t>(weight_bytes(format, std::ssize(values))));
      encode(format, values, encoded.back().data());
      decoded.resize(decoded.size() + values.size());
      matrices.push_back({encoded.back().data(), count, columns, format});
      decode(matrices.back(), 0, count, 0, columns,
             decoded.data() + decoded.size() - values.size());
    }
  }
  std::vector<std::vector<uint8_t>> encoded;
  std::vector<EncodedMatrix> matrices;
  std::vector<Bf16> decoded;
};

std::vector<uint16_t> bits_of(const std::vector<Bf16>& values) {
  std::vector<uint16_t> bits;
  for (const Bf16 value : values) bits.push_back(value.bits);
  return bits;
}

struct ShapeOfProduct {
  std::vector<int64_t> rows;
  int64_t columns, m;
};
// Also wider than a panel, not of whole blocks, and with fewer columns than threads have work for.
const std::vector<ShapeOfProduct> kShapes = {
    {{64}, 128, 5}, {{130, 20, 20}, 192, 70}, {{3}, 7, 300}, {{1100, 1000}, 600, 33}};

constexpr WeightFormat kFormats[] = {WeightFormat::kNf4, WeightFormat::kInt8};

class EncodedProducts : public OnEachBf16Kernel {};
INSTANTIATE_TEST_SUITE_P(Ways, EncodedProducts, testing::ValuesIn(kBf16Kernels),
                         [](const auto& kernel) { return name_of(kernel.param); });

void expect_those_with_the_decoded_matrix(WeightFormat format) {
  for (const auto& [rows, columns, m] : kShapes) {
    const Stack stack(format, rows, columns);
    const int64_t all = std::ssize(stack.decoded) / columns;
    for (const Transpose w : kBoth) {
      const int64_t n = w == Transpose::kYes ? all : columns, k = all + columns - n;
      const auto A = random_values<Bf16>(m * k, 1), old = random_values<Bf16>(m * n, 2);
      for (const float beta : {0.0f, 1.0f}) {
        std::vector<Bf16> expected = old;
        gemm(Transpose::kNo, w, m, n, k, A.data(), k, stack.decoded.data(), columns, beta,
             expected.data(), n);
        for (const int count : {1, 2, 3, 40}) {
          ThreadPool threads(count);
          std::vector<Bf16> got = old;
          gemm_encoded(threads, w, m, A.data(), k, stack.matrices, beta, got.data(), n);
          EXPECT_EQ(bits_of(got), bits_of(expected))
              << m << " x " << n << " x " << k << ", " << count << " threads, beta " << beta;
        }
      }
    }
  }
}

TEST_P(EncodedProducts, AreThoseWithTheDecodedMatrix) {
  for (const WeightFormat format : kFormats) {
    SCOPED_TRACE(name_of(format));
    expect_those_with_the_decoded_matrix(format);
  }
}

// C may be a part of a wider matrix, and A too.
TEST_P(EncodedProducts, LeaveWhatLiesBetweenTheRows) {
  constexpr int64_t kM = 6, kColumns = 64, kRows = 70, kGap = 3;
  const Stack stack(WeightFormat::kNf4, {kRows}, kColumns);
  ThreadPool threads(2);
  const auto A = random_values<Bf16>(kM * kColumns, 1);
  std::vector<Bf16> dense(kM * kRows);
  gemm(Transpose::kNo, Transpose::kYes, kM, kRows, kColumns, A.data(), kColumns,
       stack.decoded.data(), kColumns, 0, dense.data(), kRows);
  auto C = spread(std::vector<Bf16>(kM * kRows), kRows, kGap);
  gemm_encoded(threads, Transpose::kYes, kM, spread(A, kColumns, kGap).data(), kColumns + kGap,
               stack.matrices, 0, C.data(), kRows + kGap);
  EXPECT_EQ(bits_of(C), bits_of(spread(dense, kRows, kGap)));
}

}  // namespace
}  // namespace thinwire::tensor
