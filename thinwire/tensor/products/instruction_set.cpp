#include "thinwire/tensor/products/instruction_set.h"

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

HWY_EXPORT(target_name);

std::string_view instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace thinwire::tensor
#endif
