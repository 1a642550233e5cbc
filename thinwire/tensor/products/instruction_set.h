// Which instruction set the kernels use on this machine.
#pragma once

#include <string_view>

namespace thinwire::tensor {

// "AVX-512", and of the others Highway's names: "AVX2", "SSE4", "NEON", ...
std::string_view instruction_set();

}  // namespace thinwire::tensor
