#include "thinwire/train/finite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/half.h"
#include "thinwire/base/offload.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::train {
namespace {

NamedValues view(const tensor::Arena& weights) {
  if (weights.format() == WeightFormat::kF32) return {"", weights.all()};
  return {"", DType::kBf16, weights.bytes()};
}

template <typename T>
std::span<const T> values_in(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
}

bool all_finite(std::span<const Bf16> values) {
  constexpr uint16_t kInfinity = 0x7f80;
  return std::ranges::none_of(values,
                              [](Bf16 value) { return (value.bits & kInfinity) == kInfinity; });
}

}  // namespace

bool all_finite(const NamedValues& state, ThreadPool& threads) {
  constexpr size_t kPiece = size_t{1} << 24;  // bytes
  if (state.dtype != DType::kF32 && state.dtype != DType::kBf16) return true;
  const std::span<const uint8_t> bytes =
      state.dtype == DType::kF32 ? as_bytes(state.values) : state.bytes;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    const bool finite = state.dtype == DType::kF32
                            ? std::isfinite(optim::global_norm(values_in<float>(piece), threads))
                            : all_finite(values_in<Bf16>(piece));
    if (!finite) return false;
    release_offloaded(piece.data(), piece.size());
  }
  return true;
}

bool all_finite(const tensor::Arena& weights, ThreadPool& threads) {
  return all_finite(view(weights), threads);
}

}  // namespace thinwire::train
