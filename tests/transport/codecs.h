// Wire codecs for tests of transports, which have none of their own: as plain as possible.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "thinwire/base/half.h"
#include "thinwire/base/wire.h"

namespace thinwire::transport {

inline std::atomic<size_t> values_encoded = 0;  // by all of them together

inline const WireCodec kF32 = {
    WireType::kF32,
    [](std::span<const float> values, std::span<uint8_t> out) {
      if (!values.empty()) std::memcpy(out.data(), values.data(), values.size_bytes());
      values_encoded += values.size();
    },
    [](std::span<const uint8_t> in, std::span<float> values) -> Result<void> {
      if (!values.empty()) std::memcpy(values.data(), in.data(), in.size());
      return {};
    }};

inline const WireCodec kBf16 = {
    WireType::kBf16,
    [](std::span<const float> values, std::span<uint8_t> out) {
      for (size_t i = 0; i < values.size(); ++i) {
        const Bf16 rounded = to_bf16(values[i]);
        std::memcpy(out.data() + 2 * i, &rounded, 2);
      }
      values_encoded += values.size();
    },
    [](std::span<const uint8_t> in, std::span<float> values) -> Result<void> {
      for (size_t i = 0; i < values.size(); ++i) {
        Bf16 rounded;
        std::memcpy(&rounded, in.data() + 2 * i, 2);
        values[i] = to_float(rounded);
      }
      return {};
    }};

// Whole percents of the largest value of a block, so that a decoded value depends on its block.
inline const WireCodec kPercents = {
    WireType::kFp8,
    [](std::span<const float> values, std::span<uint8_t> out) {
      for (size_t first = 0; first < values.size(); first += 256, out = out.subspan(2 + 256)) {
        const auto block = values.subspan(first, std::min<size_t>(256, values.size() - first));
        float largest = 0;
        for (const float value : block) largest = std::max(largest, std::abs(value));
        const Bf16 scale = to_bf16(largest);
        std::memcpy(out.data(), &scale, 2);
        for (size_t i = 0; i < block.size(); ++i) {
          // An infinite scale is for the decoder to refuse.
          const float percents =
              std::isnormal(to_float(scale)) ? std::round(block[i] / to_float(scale) * 100) : 0;
          out[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(percents));
        }
        if (block.size() < 256) break;
      }
      values_encoded += values.size();
    },
    [](std::span<const uint8_t> in, std::span<float> values) -> Result<void> {
      for (size_t first = 0; first < values.size(); first += 256, in = in.subspan(2 + 256)) {
        const auto block = values.subspan(first, std::min<size_t>(256, values.size() - first));
        Bf16 scale;
        std::memcpy(&scale, in.data(), 2);
        if (!std::isfinite(to_float(scale))) return fail(FailureKind::kCorruptPayload, "a scale");
        for (size_t i = 0; i < block.size(); ++i) {
          block[i] = to_float(scale) / 100 * static_cast<float>(static_cast<int8_t>(in[2 + i]));
        }
        if (block.size() < 256) break;
      }
      return {};
    }};

// Q(values), encoded as one buffer.
inline std::vector<float> as_received(const WireCodec& codec, std::span<const float> values) {
  std::vector<uint8_t> bytes(wire_bytes(codec.type, values.size()));
  std::vector<float> decoded(values.size());
  codec.encode(values, bytes);
  if (!codec.decode(bytes, decoded)) throw Error("a test's codec refuses its own bytes");
  return decoded;
}

}  // namespace thinwire::transport
