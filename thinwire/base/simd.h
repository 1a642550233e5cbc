// Compiles one plain loop for several instruction sets and picks the best at run time. Contraction
// into FMA is off in the whole build, so every clone gives the same bits; reductions must write out
// their lanes. Kernels that the compiler does not vectorise well enough use Highway instead.
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define THINWIRE_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"), optimize("O3")))
#else
#define THINWIRE_CLONES
#endif
