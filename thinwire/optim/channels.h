// Norms and scaling of a matrix's rows or columns, summed in a fixed order, and a limit on how fast
// the norm of a step may grow.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// Whether the channels of a row-major matrix are its rows or its columns.
enum class Channel : uint8_t { kRow, kColumn };

// Writes the Euclidean norm of every channel of a matrix [rows, columns] to `norms`, one per
// channel.
void channel_norms(std::span<const float> matrix, int64_t columns, Channel channel,
                   std::span<float> norms, ThreadPool& threads);

// Multiplies every channel of the matrix by its factor.
void scale_channels(std::span<float> matrix, int64_t columns, Channel channel,
                    std::span<const float> factors, ThreadPool& threads);

// Writes the elements [at, at + count) of the matrix, each multiplied by its channel's factor, to
// `out`.
void scaled_elements(std::span<const float> matrix, int64_t columns, Channel channel,
                     std::span<const float> factors, int64_t at, int64_t count, float* out);

// Returns the factor <= 1 that limits a step of this norm to `growth` times `last`, the norm of the
// previous step (Fira, Chen et al. 2024, arXiv 2410.01623, section 4.3). Sets `last` to the
// limited norm. If `last` is 0, nothing is limited.
float limit_growth(double norm, double growth, float& last);

}  // namespace thinwire::optim
