#include "thinwire/tensor/products/gemm.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/tensor/emulated_amx.h"
#include "tests/tensor/gemm_cases.h"
#include "tests/tensor/targets.h"
#include "thinwire/tensor/products/gemm_packed.h"

namespace thinwire::tensor {
namespace {

TEST(Gemm, Fp32EqualsTheReference) {
  expect_equal_to_reference<float, float>([](auto... arguments) { gemm(arguments...); }, 1e-5);
}

TEST(Gemm, Fp32TilesEqualTheReference) {
  const Tiles<float>* const tiles = avx512_fp32_tiles();
  if (tiles == nullptr) GTEST_SKIP() << "this processor lacks AVX-512";
  expect_equal_to_reference<float, float>(
      [&](auto... arguments) { gemm_tiled(*tiles, arguments...); }, 1e-5);
}

// Large enough for every implementation to be used.
TEST(Gemm, Fp32ImplementationsAgree) {
  constexpr int64_t kM = 300, kN = 260, kK = 600;
  const auto a = random_values<float>(kM * kK, 1), b = random_values<float>(kK * kN, 2);
  const Matrix expected =
      reference::gemm(Transpose::kNo, Transpose::kYes, kM, kN, kK, widen(a), widen(b));
  for (const auto kernel : {Fp32Kernel::kTiled, Fp32Kernel::kPacked}) {
    if (!has_fp32_kernel(kernel)) continue;
    use_fp32_kernel_for_test(kernel);
    std::vector<float> c(kM * kN);
    gemm(Transpose::kNo, Transpose::kYes, kM, kN, kK, a.data(), kK, b.data(), kK, 0, c.data(), kN);
    use_fp32_kernel_for_test(std::nullopt);
    EXPECT_LT(error(c, expected), 1e-5) << "implementation " << static_cast<int>(kernel);
  }
}

// Half of the distance between neighbours in bf16: sums are rounded once.
constexpr double kOneRounding = 0x1p-8 * 1.001;

class Bf16Gemm : public OnEachBf16Kernel {};
INSTANTIATE_TEST_SUITE_P(Ways, Bf16Gemm, testing::ValuesIn(kBf16Kernels),
                         [](const auto& kernel) { return name_of(kernel.param); });

TEST_P(Bf16Gemm, EqualsTheReference) {
  expect_equal_to_reference<Bf16, Bf16>([](auto... arguments) { gemm(arguments...); },
                                        kOneRounding);
}

TEST_P(Bf16Gemm, WithFp32ResultEqualsTheReference) {
  expect_equal_to_reference<Bf16, float>([](auto... arguments) { gemm(arguments...); }, 1e-5);
}

TEST_P(Bf16Gemm, GivesTheSameBitsAgain) {
  constexpr int64_t kSide = 300;
  const auto a = random_values<Bf16>(kSide * kSide, 1), b = random_values<Bf16>(kSide * kSide, 2);
  std::vector<std::vector<float>> results(2, std::vector<float>(kSide * kSide));
  for (auto& c : results) {
    gemm(Transpose::kNo, Transpose::kYes, kSide, kSide, kSide, a.data(), kSide, b.data(), kSide, 0,
         c.data(), kSide);
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(Gemm, EmulatedAmxEqualsTheReference) {
  expect_equal_to_reference<Bf16, float>(
      [](auto... arguments) { gemm_tiled(kEmulatedAmx, arguments...); }, 1e-5);
  expect_equal_to_reference<Bf16, Bf16>(
      [](auto... arguments) { gemm_tiled(kEmulatedAmx, arguments...); }, kOneRounding);
}

class PackedGemm : public OnEachTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, PackedGemm, testing::ValuesIn(compiled_targets()),
                         [](const auto& target) { return target_name(target.param); });

TEST_P(PackedGemm, EqualsTheReference) {
  expect_equal_to_reference<float, float>([](auto... arguments) { gemm_packed(arguments...); },
                                          1e-5);
  expect_equal_to_reference<Bf16, float>([](auto... arguments) { gemm_packed(arguments...); },
                                         1e-5);
  expect_equal_to_reference<Bf16, Bf16>([](auto... arguments) { gemm_packed(arguments...); },
                                        kOneRounding);
}

TEST(Gemm, SlabsOfAPoolEqualTheReference) {
  for (const int count : {2, 3}) {
    ThreadPool threads(count);
    expect_equal_to_reference<float, float>([&](auto... arguments) { gemm(threads, arguments...); },
                                            1e-5);
  }
}

TEST(Gemm, WithBetaZeroOldNansAreNotRead) {
  const float a = 2, b = 3;
  float c = std::nanf("");
  gemm(Transpose::kNo, Transpose::kNo, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  EXPECT_EQ(c, 6);
  c = std::nanf("");
  gemm_packed(Transpose::kNo, Transpose::kNo, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
  EXPECT_EQ(c, 6);
}

TEST(Gemm, WithoutDepthScalesC) {
  float c[] = {2, 4};
  const float none = 0;
  gemm(Transpose::kNo, Transpose::kNo, 1, 2, 0, &none, 1, &none, 2, 0.5f, c, 2);
  EXPECT_EQ(c[0], 1);
  EXPECT_EQ(c[1], 2);
}

TEST(Gemm, ManyThreadsAtOnceGetTheSameBits) {
  constexpr int64_t kSide = 96;
  const auto a = random_values<float>(kSide * kSide, 1), b = random_values<float>(kSide * kSide, 2);
  std::vector<std::vector<float>> results(4, std::vector<float>(kSide * kSide));
  std::vector<std::thread> threads;
  for (auto& c : results) {
    threads.emplace_back([&a, &b, &c] {
      for (int repeat = 0; repeat < 20; ++repeat) {
        gemm(Transpose::kNo, Transpose::kYes, kSide, kSide, kSide, a.data(), kSide, b.data(), kSide,
             0, c.data(), kSide);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& c : results) EXPECT_LT(error(c, widen(results[0])), 1e-6);
}

}  // namespace
}  // namespace thinwire::tensor
