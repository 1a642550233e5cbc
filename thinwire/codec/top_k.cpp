#include "thinwire/codec/top_k.h"

#include <algorithm>
#include <bit>
#include <numeric>

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

// Positions of |tile[p]| >= threshold, ascending, and the bits of these absolute values; both have
// room for a vector more than there are, and `bits` gets one of zeros behind them.
int64_t find_candidates(const float* tile, int64_t count, uint32_t threshold, uint32_t* positions,
                        uint32_t* bits) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto below = hn::Set(d, static_cast<int32_t>(threshold - 1));
  auto* keys = reinterpret_cast<int32_t*>(bits);
  int64_t found = 0;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto here = absolute_bits(tile + i);
    const auto mask = hn::Gt(here, below);
    if (hn::AllFalse(d, mask)) continue;
    const auto at = hn::Iota(d, static_cast<int32_t>(i));
    hn::CompressStore(at, mask, d, reinterpret_cast<int32_t*>(positions) + found);
    found += static_cast<int64_t>(hn::CompressStore(here, mask, d, keys + found));
  }
  for (; i < count; ++i) {
    positions[found] = static_cast<uint32_t>(i);
    bits[found] = std::bit_cast<uint32_t>(tile[i]) & 0x7fffffffu;
    if (bits[found] >= threshold) ++found;
  }
  hn::StoreU(hn::Zero(d), d, keys + found);
  return found;
}

// A number that at least k of the values reach: exactly k if there is one, else the k-th largest
// value, of which the bits below `lowest_bit` are left zero. At least k values reach `low`. Values
// are below 2^31; those behind `count` that complete a vector are zero.
uint32_t reached_by(const uint32_t* values, int64_t count, int64_t k, uint32_t low,
                    int lowest_bit) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* in = reinterpret_cast<const int32_t*>(values);
  auto most = hn::Zero(d);
  for (int64_t i = 0; i < count; i += lanes) most = hn::Max(most, hn::LoadU(d, in + i));
  const auto high = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(d, most)));
  const int differing = std::bit_width(low ^ high);
  uint32_t limit = low >> differing << differing;
  for (int bit = differing - 1; bit >= lowest_bit; --bit) {
    const uint32_t tried = limit | 1u << bit;
    const auto below = hn::Set(d, static_cast<int32_t>(tried - 1));
    int64_t reached = 0;
    for (int64_t i = 0; i < count; i += lanes) {
      reached += static_cast<int64_t>(hn::CountTrue(d, hn::Gt(hn::LoadU(d, in + i), below)));
    }
    if (reached < k) continue;
    limit = tried;
    if (reached == k) break;
  }
  return limit;
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
HWY_EXPORT(reached_by);

constexpr int kVectorRoom = 64;                      // elements of the widest vector, and some
constexpr uint64_t kReciprocal = uint64_t{1} << 24;  // divides positions below 2^16 by sides to 256

}  // namespace

TopK::TopK(int rows, int columns, int kept)
    : rows_(rows),
      columns_(columns),
      kept_(kept),
      groups_(std::min(rows * columns, (2 * kept + 15) / 16 * 16)),
      reciprocal_((kReciprocal + static_cast<uint64_t>(rows) - 1) / static_cast<uint64_t>(rows)),
      maxima_(static_cast<size_t>(groups_ + kVectorRoom)),
      candidates_(static_cast<size_t>(rows * columns + kVectorRoom)),
      bits_(candidates_.size()),
      ordered_(static_cast<size_t>(rows * columns)),
      starts_(static_cast<size_t>(rows + 1)) {}

// Each of the largest `kept` group maxima is an element of its own.
uint32_t TopK::lower_bound(const float* tile) {
  if (kept_ >= groups_) return 1;
  HWY_DYNAMIC_DISPATCH(group_maxima)(tile, int64_t{rows_} * columns_, groups_, maxima_.data());
  // A bound that is a little too low costs little.
  constexpr int kLowestBit = 16;
  return std::max(HWY_DYNAMIC_DISPATCH(reached_by)(maxima_.data(), groups_, kept_, 0, kLowestBit),
                  1u);
}

// The first `count` candidates, which ascend by column, by row and then by column.
void TopK::order_by_row(int64_t count) {
  std::fill(starts_.begin(), starts_.end(), 0);
  for (int64_t i = 0; i < count; ++i) ++starts_[row(candidates_[static_cast<size_t>(i)]) + 1];
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t position = candidates_[static_cast<size_t>(i)];
    ordered_[starts_[row(position)]++] = position;
  }
}

int TopK::take(float* tile, uint16_t* slots, float* values) {
  const uint32_t threshold = lower_bound(tile);
  const int64_t found = HWY_DYNAMIC_DISPATCH(find_candidates)(
      tile, int64_t{rows_} * columns_, threshold, candidates_.data(), bits_.data());
  uint32_t least = threshold;
  if (found > kept_) {
    least = HWY_DYNAMIC_DISPATCH(reached_by)(bits_.data(), found, kept_, threshold, 0);
  }
  int64_t chosen = 0;
  for (int64_t i = 0; i < found; ++i) {
    candidates_[static_cast<size_t>(chosen)] = candidates_[static_cast<size_t>(i)];
    if (bits_[static_cast<size_t>(i)] >= least) ++chosen;
  }
  order_by_row(chosen);
  // From the last slot to the first, so that of equal values the lowest slots are left to take.
  const int64_t taken = std::min<int64_t>(chosen, kept_);
  int64_t spare = chosen - taken;
  for (int64_t i = chosen, at = taken; i-- > 0;) {
    const uint32_t position = ordered_[static_cast<size_t>(i)];
    float& value = tile[position];
    if (spare > 0 && (std::bit_cast<uint32_t>(value) & 0x7fffffffu) == least) {
      --spare;
      continue;
    }
    const uint32_t a = row(position);
    const uint32_t b = column(position);
    slots[--at] = static_cast<uint16_t>(a * static_cast<uint32_t>(columns_) + b);
    values[at] = value;
    value = 0;
  }
  return static_cast<int>(taken);
}

}  // namespace thinwire::codec
#endif
