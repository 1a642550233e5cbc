// Tests of vector code on each instruction set for which it is compiled; a set that this CPU lacks
// is skipped by name.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "thinwire/tensor/kernels/simd_targets.h"

// Must come after simd_targets.h, which chooses them.
#include <hwy/targets.h>

namespace thinwire::tensor {

inline std::vector<int64_t> compiled_targets() {
  std::vector<int64_t> targets;
  for (int64_t left = HWY_TARGETS; left != 0; left &= left - 1) targets.push_back(left & -left);
  return targets;
}

// hwy::TargetName knows only those of its own architecture.
inline std::string target_name(int64_t target) {
  switch (target) {
    case HWY_AVX3:
      return "AVX3";
    case HWY_AVX2:
      return "AVX2";
    case HWY_SSE4:
      return "SSE4";
    case HWY_NEON:
      return "NEON";
    default:
      return hwy::TargetName(target);
  }
}

// Dispatched code runs on `target` from now on; 0: on the CPU's best again.
inline void choose_target(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

inline bool has_target(int64_t target) { return (hwy::SupportedTargets() & target) != 0; }

// A test whose parameter is, or begins with, an instruction set runs on that.
inline int64_t target_of(int64_t target) { return target; }
template <typename... Others>
int64_t target_of(const std::tuple<int64_t, Others...>& parameters) {
  return std::get<0>(parameters);
}

template <typename Parameter>
class OnTarget : public testing::TestWithParam<Parameter> {
 protected:
  void SetUp() override {
    const int64_t target = target_of(this->GetParam());
    if (!has_target(target)) {
      GTEST_SKIP() << "this processor has no " << target_name(target);
    }
    choose_target(target);
  }
  void TearDown() override { choose_target(0); }
};

using OnEachTarget = OnTarget<int64_t>;

}  // namespace thinwire::tensor
