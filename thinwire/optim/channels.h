// Norms and factors of a matrix's rows or columns, in a fixed order of sums, and a limit to how
// fast a step may grow.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/threads.h"

namespace thinwire::optim {

// What a channel of a row-major matrix is.
enum class Channel : uint8_t { kRow, kColumn };

// The Euclidean norm of every channel of a matrix [rows, columns], into `norms`, one each.
void channel_norms(std::span<const float> matrix, int64_t columns, Channel channel,
                   std::span<float> norms, ThreadPool& threads);

// matrix = matrix * factor of the channel
void scale_channels(std::span<float> matrix, int64_t columns, Channel channel,
                    std::span<const float> factors, ThreadPool& threads);

// The factor <= 1 by which a step of this norm is to be multiplied so that its norm is at most
// `growth` times the last one's, which becomes this one's (Fira, Chen et al. 2024, arXiv
// 2410.01623, section 4.3). A last norm of 0 limits nothing.
float limit_growth(double norm, double growth, float& last);

}  // namespace thinwire::optim
