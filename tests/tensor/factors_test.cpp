#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/tensor/products/gemm.h"

namespace thinwire::tensor {
namespace {

constexpr int64_t kOut = 37, kIn = 53, kRank = 5;
constexpr float kScale = 0.75f;

std::vector<float> random_values(int64_t count, uint64_t stream) {
  Rng rng(1, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

TEST(Factors, TheirProductIsAdded) {
  const auto a = random_values(kRank * kIn, 0), b = random_values(kOut * kRank, 1);
  const auto before = random_values(kOut * kIn, 2);
  std::vector<float> w = before;
  ThreadPool threads(2);
  add_factors(w, a, b, kRank, kScale, threads);
  for (int64_t i = 0; i < kOut; ++i) {
    for (int64_t j = 0; j < kIn; ++j) {
      double expected = before[size_t(i * kIn + j)];
      for (int64_t k = 0; k < kRank; ++k) {
        expected += double{kScale} * b[size_t(i * kRank + k)] * a[size_t(k * kIn + j)];
      }
      ASSERT_NEAR(w[size_t(i * kIn + j)], expected, 1e-5) << i << ", " << j;
    }
  }
}

// Each sum is formed in order and rounded after every operation, which no vector width changes.
TEST(Factors, AreAddedWithTheSameBitsByAnyNumberOfThreads) {
  const auto a = random_values(kRank * kIn, 0), b = random_values(kOut * kRank, 1);
  std::vector<float> expected = random_values(kOut * kIn, 2);
  for (int64_t i = 0; i < kOut; ++i) {
    for (int64_t j = 0; j < kIn; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < kRank; ++k) {
        const volatile float product = b[size_t(i * kRank + k)] * a[size_t(k * kIn + j)];
        sum += product;
      }
      const volatile float scaled = kScale * sum;
      expected[size_t(i * kIn + j)] += scaled;
    }
  }
  for (const int threads : {1, 3}) {
    std::vector<float> w = random_values(kOut * kIn, 2);
    ThreadPool pool(threads);
    add_factors(w, a, b, kRank, kScale, pool);
    EXPECT_EQ(std::memcmp(w.data(), expected.data(), w.size() * sizeof(float)), 0) << threads;
  }
}

}  // namespace
}  // namespace thinwire::tensor
