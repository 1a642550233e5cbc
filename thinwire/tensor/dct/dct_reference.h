// The transforms of dct.h in plain scalar code, one element after another, with the same graph of
// operations and therefore the same bits. The vector code is tested against it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace thinwire::tensor {

// One column: orthonormal DCT-II and its inverse.
std::vector<float> dct_reference(const std::vector<float>& column);
std::vector<float> idct_reference(const std::vector<float>& coefficients);

// What TileDct::accumulate adds for a dense tile (rows `columns` apart), and TileDct::inverse as a
// dense tile: from some coefficients, and from all, column by column.
std::vector<float> tile_dct_reference(std::span<const float> tile, int rows, int columns);
std::vector<float> tile_idct_reference(std::span<const uint16_t> slots, const float* values,
                                       int rows, int columns);
std::vector<float> tile_idct_reference(std::span<const float> all, int rows, int columns);

}  // namespace thinwire::tensor
