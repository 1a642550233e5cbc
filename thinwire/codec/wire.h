// Codecs of the formats in which sums are sent (base/wire.h; bytes: docs/formats.md). Every
// instruction set gives the same bits.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/wire.h"

namespace thinwire::codec {

const WireCodec& wire_codec(WireType type);
// Of contributions whose sum is encoded in a format of its own.
const WireCodec& wire_codec(SumFormats formats);

// Formats whose blocks of 256 values share a bf16 scale (docs/formats.md). Encoders write
// wire_bytes(values) bytes; decoders return whether scales and codes are valid, and expect the
// right length.
//
//   fp8   E4M3 without infinities (Micikevicius et al. 2022, arXiv 2209.05433), 448 at the scale
//   fp4   E3M0: 0 and the scale times 2^-6 ... 2^0, as in Streaming DiLoCo (Douillard et al.
//         2025, arXiv 2501.18512)
//   int2  half the mean magnitude, or twice
//   int1  the mean magnitude
void encode_fp8(std::span<const float> values, std::span<uint8_t> out);
bool decode_fp8(std::span<const uint8_t> in, std::span<float> values);
void encode_fp4(std::span<const float> values, std::span<uint8_t> out);
bool decode_fp4(std::span<const uint8_t> in, std::span<float> values);
void encode_int2(std::span<const float> values, std::span<uint8_t> out);
bool decode_int2(std::span<const uint8_t> in, std::span<float> values);
void encode_int1(std::span<const float> values, std::span<uint8_t> out);
bool decode_int1(std::span<const uint8_t> in, std::span<float> values);

}  // namespace thinwire::codec
