// Which instruction sets the kernels are compiled for: AVX-512, AVX2, SSE4 and NEON, plus Highway's
// baseline; others would only cost compile time. Include this before any Highway header.
#pragma once

#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
