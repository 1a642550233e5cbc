// What the transforms of dct.h need to know about one side of the tiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "thinwire/base/block_sizes.h"
#include "thinwire/tensor/dct/dct_tables.h"

namespace thinwire::tensor {

// Rows of a workspace are padded to a multiple of 16 elements, which every vector length divides.
constexpr int64_t padded(int64_t count) { return (count + 15) / 16 * 16; }

struct DctSide {
  explicit DctSide(int size) : n(size), norm(static_cast<size_t>(size)) {
    for (int f = 0; f < n; ++f) norm[static_cast<size_t>(f)] = static_cast<float>(dct_norm(n, f));
    basis.resize(static_cast<size_t>(n * padded(n)));
    for (int f = 0; f < n; ++f) {
      for (int x = 0; x < n; ++x)
        basis[static_cast<size_t>(f * padded(n) + x)] = dct_basis(n, f, x);
    }
  }

  const float* row(int frequency) const { return basis.data() + frequency * padded(n); }

  int n;
  std::vector<float> norm;   // a_f
  std::vector<float> basis;  // B, rows padded with zeros
};

}  // namespace thinwire::tensor
