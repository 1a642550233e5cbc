// The definitions behind number_formats.h, one value at a time; the vector code is tested against
// them, bit for bit.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/bf16.h"
#include "thinwire/tensor/kernels/number_formats.h"

namespace thinwire::tensor::reference {

// The random bits for the value of this index.
uint32_t random_bits(uint64_t key, int64_t index);

Bf16 round_stochastically(float value, uint32_t random);

// The exponent of a block; kMaxBlockExponent + 1 if a value cannot be encoded.
uint32_t block_exponent(BlockCode code, std::span<const float> values);
// `exponent` is that of the value's block, not 0.
uint8_t encode(BlockCode code, float value, uint32_t exponent, uint32_t random);
float decode(BlockCode code, uint8_t bits, uint32_t exponent);

}  // namespace thinwire::tensor::reference
