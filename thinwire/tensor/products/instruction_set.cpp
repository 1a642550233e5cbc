#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "thinwire/tensor/products/gemm.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "thinwire/base/error.h"
#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/tensor/products/instruction_set.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thinwire::tensor::HWY_NAMESPACE {

const char* target_name() {
  return HWY_TARGET == HWY_AVX3 ? "AVX-512" : hwy::TargetName(HWY_TARGET);
}

}  // namespace thinwire::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::tensor {
namespace {

HWY_EXPORT(target_name);

bool allows_avx512 = true, allows_bf16 = true;  // by limit_instructions()

#if defined(__x86_64__)
// Highway numbers its sets so that newer ones have lower bits.
constexpr int64_t kNewerThanAvx2 = HWY_AVX2 - 1;
#else
constexpr int64_t kNewerThanAvx2 = 0;
#endif

}  // namespace

std::string_view instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

#if defined(__x86_64__)

bool has_avx512() {
  return allows_avx512 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}

bool has_avx512_bf16() {
  return allows_bf16 && has_avx512() && __builtin_cpu_supports("avx512bf16");
}

bool has_amx_bf16() {
  constexpr unsigned kFeatures = 7, kAmxBf16 = 1u << 22;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return allows_bf16 && __get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0;
}

#else

bool has_avx512() { return false; }
bool has_avx512_bf16() { return false; }
bool has_amx_bf16() { return false; }

#endif

void limit_instructions(std::string_view limit) {
  if (std::ranges::find(kInstructionLimits, limit) == kInstructionLimits.end()) {
    throw UsageError(fmt::format("instructions must be one of {}, got \"{}\"",
                                 fmt::join(kInstructionLimits, ", "), limit));
  }
  allows_bf16 = false;
  if (limit == "avx512") return;
  allows_avx512 = false;
  hwy::DisableTargets(kNewerThanAvx2);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace thinwire::tensor
#endif
