// Which instruction set the kernels use on this machine.
#pragma once

#include <string_view>

namespace thinwire::tensor {

// Highway's name of it: "AVX2", "AVX3" (AVX-512), "NEON", ...
std::string_view instruction_set();

}  // namespace thinwire::tensor
