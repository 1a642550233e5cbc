// The kernels of kernels.h for each type of operands and instruction set, for typed tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <type_traits>

#include "tests/tensor/targets.h"
#include "thinwire/tensor/kernels/kernels.h"

namespace thinwire::tensor {

// Widths that fill vectors, leave a rest, and are smaller than one.
inline constexpr int64_t kWidths[] = {64, 37, 3};
inline constexpr int64_t kRows = 5;
inline constexpr double kEps = 1e-5;

// The kernels for operands of one type, compiled for one instruction set.
template <typename Operand, int64_t target>
struct Case {
  using T = Operand;
  static constexpr int64_t kTarget = target;
};

template <typename C>
class KernelTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_target(C::kTarget)) {
      GTEST_SKIP() << "this processor has no " << target_name(C::kTarget);
    }
    choose_target(C::kTarget);
    kernel_ = dispatch_kernels<typename C::T>();
    choose_target(0);
  }
  Kernels<typename C::T> kernel_;
};

struct CaseNames {
  template <typename C>
  static std::string GetName(int) {
    const std::string type = std::is_same_v<typename C::T, float> ? "fp32" : "bf16";
    return type + "_" + target_name(C::kTarget);
  }
};
// The substitute for vectors on a CPU without them differs between compilers.
inline constexpr int64_t kNoVectors = HWY_BASELINE_SCALAR;
using Cases = testing::Types<Case<float, HWY_AVX3>, Case<float, HWY_AVX2>, Case<float, HWY_SSE4>,
                             Case<float, HWY_NEON>, Case<float, kNoVectors>, Case<Bf16, HWY_AVX3>,
                             Case<Bf16, HWY_AVX2>, Case<Bf16, HWY_SSE4>, Case<Bf16, HWY_NEON>,
                             Case<Bf16, kNoVectors>>;

}  // namespace thinwire::tensor
