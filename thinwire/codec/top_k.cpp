#include "thinwire/codec/top_k.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "thinwire/tensor/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/codec/top_k.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace thinwire::codec {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<int32_t>;  // absolute values as integers: same order, and never NaN

hn::Vec<D> absolute_bits(const float* values) {
  const D d;
  return hn::And(hn::LoadU(d, reinterpret_cast<const int32_t*>(values)), hn::Set(d, 0x7fffffff));
}

// maxima[g] = largest |tile[p]| over positions p equal to g modulo `groups`. Neither `groups` nor
// `count` need be a multiple of the vector.
void group_maxima(const float* tile, int64_t count, int64_t groups, uint32_t* maxima) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* out = reinterpret_cast<int32_t*>(maxima);
  std::fill_n(out, groups, 0);
  for (int64_t begin = 0; begin < count; begin += groups) {
    const int64_t here = std::min(groups, count - begin);
    int64_t i = 0;
    for (; i + lanes <= here; i += lanes) {
      const auto bits = absolute_bits(tile + begin + i);
      hn::StoreU(hn::Max(hn::LoadU(d, out + i), bits), d, out + i);
    }
    for (; i < here; ++i) {
      const auto bits =
          static_cast<int32_t>(std::bit_cast<uint32_t>(tile[begin + i]) & 0x7fffffffu);
      out[i] = std::max(out[i], bits);
    }
  }
}

// Positions of |tile[p]| >= threshold, ascending; `out` has room for a vector more than there are.
int64_t find_candidates(const float* tile, int64_t count, uint32_t threshold, uint32_t* out) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto below = hn::Set(d, static_cast<int32_t>(threshold - 1));
  int64_t found = 0;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto mask = hn::Gt(absolute_bits(tile + i), below);
    if (hn::AllFalse(d, mask)) continue;
    const auto positions = hn::Iota(d, static_cast<int32_t>(i));
    found += static_cast<int64_t>(
        hn::CompressStore(positions, mask, d, reinterpret_cast<int32_t*>(out) + found));
  }
  for (; i < count; ++i) {
    out[found] = static_cast<uint32_t>(i);
    if ((std::bit_cast<uint32_t>(tile[i]) & 0x7fffffffu) >= threshold) ++found;
  }
  return found;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::codec {
namespace {

HWY_EXPORT(group_maxima);
HWY_EXPORT(find_candidates);

constexpr int kVectorRoom = 64;  // elements of the widest vector, and some

}  // namespace

TopK::TopK(int rows, int columns, int kept)
    : rows_(rows),
      columns_(columns),
      kept_(kept),
      groups_(std::min(rows * columns, (2 * kept + 15) / 16 * 16)),
      words_((columns + 63) / 64),
      maxima_(static_cast<size_t>(groups_)),
      candidates_(static_cast<size_t>(rows * columns + kVectorRoom)),
      keys_(static_cast<size_t>(rows * columns)),
      marks_(static_cast<size_t>(rows * words_)) {}

// Each of the largest `kept` group maxima is an element of its own.
uint32_t TopK::lower_bound(const float* tile) {
  if (kept_ >= groups_) return 1;
  HWY_DYNAMIC_DISPATCH(group_maxima)(tile, int64_t{rows_} * columns_, groups_, maxima_.data());
  const auto last = maxima_.begin() + kept_ - 1;
  std::nth_element(maxima_.begin(), last, maxima_.end(), std::greater<>());
  return std::max(*last, 1u);
}

void TopK::mark(uint32_t slot) {
  const uint32_t a = slot / static_cast<uint32_t>(columns_);
  const uint32_t b = slot % static_cast<uint32_t>(columns_);
  marks_[a * static_cast<uint32_t>(words_) + b / 64] |= uint64_t{1} << (b % 64);
}

int TopK::take_marked(float* tile, uint16_t* slots, float* values) {
  int taken = 0;
  for (int a = 0; a < rows_; ++a) {
    for (int word = 0; word < words_; ++word) {
      uint64_t& marks = marks_[static_cast<size_t>(a * words_ + word)];
      for (; marks != 0; marks &= marks - 1) {
        const int b = 64 * word + std::countr_zero(marks);
        float& value = tile[b * rows_ + a];
        slots[taken] = static_cast<uint16_t>(a * columns_ + b);
        values[taken++] = value;
        value = 0;
      }
    }
  }
  return taken;
}

int TopK::take(float* tile, uint16_t* slots, float* values) {
  const uint32_t threshold = lower_bound(tile);
  const int64_t found = HWY_DYNAMIC_DISPATCH(find_candidates)(tile, int64_t{rows_} * columns_,
                                                              threshold, candidates_.data());
  const auto height = static_cast<uint32_t>(rows_);
  for (int64_t i = 0; i < found; ++i) {
    const uint32_t position = candidates_[static_cast<size_t>(i)];
    const uint32_t slot = position % height * static_cast<uint32_t>(columns_) + position / height;
    const uint32_t bits = std::bit_cast<uint32_t>(tile[position]) & 0x7fffffffu;
    keys_[static_cast<size_t>(i)] = uint64_t{bits} << 32 | (0xffffffffu - slot);
  }
  const int64_t taken = std::min<int64_t>(found, kept_);
  std::nth_element(keys_.begin(), keys_.begin() + taken, keys_.begin() + found, std::greater<>());
  for (int64_t i = 0; i < taken; ++i) {
    mark(0xffffffffu - static_cast<uint32_t>(keys_[static_cast<size_t>(i)]));
  }
  return take_marked(tile, slots, values);
}

}  // namespace thinwire::codec
#endif
