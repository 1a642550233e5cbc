// Which instruction sets the kernels use on this machine.
#pragma once

#include <array>
#include <string_view>

namespace thinwire::tensor {

// "AVX-512", and of the others Highway's names: "AVX2", "SSE4", "NEON", ...
std::string_view instruction_set();

// Whether the CPU has these instructions and limit_instructions() allows them.
bool has_avx512_bf16();  // with the byte, word and shorter vectors that AVX512-BF16 is used with
bool has_amx_bf16();

inline constexpr std::array<std::string_view, 2> kInstructionLimits = {"avx2", "avx512"};

// From now on kernels use no newer instructions than those of `limit`, one of kInstructionLimits;
// "avx512" is without bf16 and AMX. To be called before any kernel runs, as a choice that was made
// is kept. LibTorch's libraries have limits of their own, and functions that the compiler cloned
// for several instruction sets, which are not matrix products, have none. Throws UsageError for
// any other text.
void limit_instructions(std::string_view limit);

}  // namespace thinwire::tensor
