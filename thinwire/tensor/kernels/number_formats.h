// Values kept in fewer bits than they are computed with, and the random bits that round them.
//
// Stochastic rounding (Gupta et al. 2015, arXiv 1502.02551) takes one of the two representable
// neighbours of a value, each with a probability that grows with its nearness, so that the expected
// result is the value itself and changes smaller than a unit in the last place add up instead of
// being lost. Its random bits are a function of a key and of the value's index in its tensor, so
// they are the same on every replica, whatever the number of threads and the instruction set.
//
// Eight-bit codes are floating-point numbers in blocks of kStateBlock values that share an exponent
// (as in the Open Compute Project's Microscaling Formats 1.0, with longer blocks):
//   BlockCode::kSigned      sign, 4 bits of exponent, 3 of mantissa
//   BlockCode::kMagnitude   4 bits of exponent, 4 of mantissa: for values that are not negative
// docs/formats.md gives the values. The largest magnitude of a block is in the highest of the 16
// binades of its codes, the lowest of which is subnormal. Only a magnitude of 0 becomes 0: steps
// are divided by the root of a running mean of squares, so it must not vanish. A block whose
// largest magnitude is below 2^-100 becomes 0 as a whole.
//
// All functions compute on the calling thread with the CPU's best instructions, and may be called
// from any number of threads. `first`, the index of the first value, is a multiple of kStateBlock.
#pragma once

#include <cstdint>

#include "thinwire/base/half.h"
#include "thinwire/base/number_format.h"

namespace thinwire::tensor {

enum class BlockCode : uint8_t { kSigned, kMagnitude };

constexpr int mantissa_bits(BlockCode code) { return code == BlockCode::kSigned ? 3 : 4; }

// Exponents that an encoder writes: 0 for a block of zeros, or the fp32 exponent field of its
// highest binade.
inline constexpr uint32_t kMinBlockExponent = 27;  // 2^-100
inline constexpr uint32_t kMaxBlockExponent = 254;

// The key of a rounding pass: of a tensor's values of one kind, in one step of a run.
uint64_t rounding_key(uint64_t seed, uint64_t kind, uint64_t tensor, uint64_t step);

// Rounds stochastically. Values that are not finite stay so; values beyond the largest bf16 become
// infinite.
void round_stochastically(const float* values, int64_t count, uint64_t key, int64_t first,
                          Bf16* to);
// Rounds to nearest, ties to even.
void round_to_nearest(const float* values, int64_t count, Bf16* to);
void widen(const Bf16* values, int64_t count, float* to);

// Encodes, rounding stochastically, into whole blocks: kStateBlock codes and an exponent each; what
// is missing in the last block counts as 0. Returns false, leaving the codes undefined, if a value
// is not finite or within half a unit of overflow.
[[nodiscard]] bool encode_blocks(BlockCode code, const float* values, int64_t count, uint64_t key,
                                 int64_t first, uint8_t* codes, uint8_t* exponents);
// Blocks with an exponent that no encoder writes become NaN.
void decode_blocks(BlockCode code, const uint8_t* codes, const uint8_t* exponents, int64_t count,
                   float* to);

}  // namespace thinwire::tensor
