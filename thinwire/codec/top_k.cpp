#include "thinwire/codec/top_k.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/codec/top_k.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#ifndef THINWIRE_CODEC_TOP_K_ONCE
#define THINWIRE_CODEC_TOP_K_ONCE
namespace thinwire::codec {

constexpr int kVectorPadding = 64;  // elements of the widest vector, and a few more
constexpr uint64_t kReciprocal = uint64_t{1} << 40;  // divides numbers below 2^16 by up to 2^16
constexpr uint64_t reciprocal(int of) {
  return (kReciprocal + static_cast<uint64_t>(of) - 1) / static_cast<uint64_t>(of);
}

struct TopK::Workspace {
  Workspace(int tile_rows, int tile_columns, int to_keep)
      : rows(static_cast<uint32_t>(tile_rows)),
        columns(static_cast<uint32_t>(tile_columns)),
        kept(to_keep),
        groups(std::min(tile_rows * tile_columns, (2 * to_keep + 15) / 16 * 16)),
        by_rows(reciprocal(tile_rows)),
        by_columns(reciprocal(tile_columns)),
        row_words((columns + 63) / 64),
        maxima(static_cast<size_t>(groups + kVectorPadding)),
        marks((size() + 63) / 64),
        candidates(size() + kVectorPadding),
        bits(candidates.size()),
        chosen(rows * row_words),
        ordered(candidates.size()) {}

  size_t size() const { return size_t{rows} * columns; }

  uint32_t rows;
  uint32_t columns;
  int kept;
  int groups;           // the elements at positions equal modulo this form a group
  uint64_t by_rows;     // 2^40 / rows, rounded up
  uint64_t by_columns;  // 2^40 / columns, rounded up
  uint32_t row_words;
  std::vector<uint32_t> maxima;      // by group
  std::vector<uint64_t> marks;       // one bit per position: whether it is a candidate
  std::vector<uint32_t> candidates;  // positions
  std::vector<uint32_t> bits;        // of the candidates' absolute values
  std::vector<uint64_t> chosen;      // one bit per slot, rows of whole words; zero between tiles
  std::vector<uint32_t> ordered;     // slots
};

}  // namespace thinwire::codec
#endif

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

// Sets a bit for every position with |tile[p]| >= threshold >= 1, and returns how many there are.
int64_t mark_candidates(const float* tile, int64_t count, uint32_t threshold, uint64_t* marks) {
  const D d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  const auto below = hn::Set(d, static_cast<int32_t>(threshold - 1));
  auto* bytes = reinterpret_cast<uint8_t*>(marks);
  const auto words = static_cast<size_t>((count + 63) / 64);
  if (kLanes < 8) std::memset(bytes, 0, 8 * words);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const auto mask = hn::Gt(absolute_bits(tile + i), below);
    if constexpr (kLanes >= 8) {
      hn::StoreMaskBits(d, mask, bytes + i / 8);
    } else {
      uint8_t part[8];
      hn::StoreMaskBits(d, mask, part);
      bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | part[0] << (i % 8));
    }
  }
  if (i < count && kLanes >= 8) std::memset(bytes + i / 8, 0, 8 * words - size_t(i / 8));
  for (; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(tile[i]) & 0x7fffffffu;
    bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | (bits >= threshold ? 1 : 0) << (i % 8));
  }
  int64_t found = 0;
  for (size_t word = 0; word < words; ++word) found += std::popcount(marks[word]);
  return found;
}

// Writes the positions of the set bits of a word, counted from `first`. It may write two more after
// them, because the number of set bits is hard to predict and is rarely more than two.
HWY_INLINE uint32_t* list_bits(uint64_t word, uint32_t first, uint32_t* out) {
  uint32_t* const end = out + std::popcount(word);
  for (int i = 0; i < 2; ++i) {
    *out++ = first + static_cast<uint32_t>(std::countr_zero(word));
    word &= word - 1;
  }
  while (out < end) {
    *out++ = first + static_cast<uint32_t>(std::countr_zero(word));
    word &= word - 1;
  }
  return end;
}

// A number that at least k of the values reach: exactly k if there is such a number, else the k-th
// largest value with the bits below `lowest_bit` zero. At least k values must reach `low`. Values
// are below 2^31; those after `count` that complete a vector must be zero.
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
    limit = reached < k ? limit : tried;
    if (reached == k) break;
  }
  return limit;
}

// Bits of a positive number that at least `kept` absolute values reach, or of the smallest positive
// number. It is safe, because the `kept` largest group maxima are distinct elements.
uint32_t lower_bound(const float* tile, TopK::Workspace& of) {
  if (of.kept >= of.groups) return 1;
  group_maxima(tile, static_cast<int64_t>(of.size()), of.groups, of.maxima.data());
  // A bound that is a little too low costs little.
  constexpr int kLowestBit = 16;
  return std::max(reached_by(of.maxima.data(), of.groups, of.kept, 0, kLowestBit), 1u);
}

// Lists the candidates' positions and bits, and returns a number that as many candidates reach as
// are to be taken, or a few more.
uint32_t least_taken(const float* tile, int64_t found, uint32_t threshold, TopK::Workspace& of) {
  uint32_t* out = of.candidates.data();
  uint32_t first = 0;
  for (const uint64_t word : of.marks) {
    out = list_bits(word, first, out);
    first += 64;
  }
  for (int64_t i = 0; i < found; ++i) {
    const uint32_t position = of.candidates[size_t(i)];
    of.bits[size_t(i)] = std::bit_cast<uint32_t>(tile[position]) & 0x7fffffffu;
  }
  const D d;
  hn::StoreU(hn::Zero(d), d, reinterpret_cast<int32_t*>(of.bits.data()) + found);
  if (found <= of.kept) return threshold;
  return reached_by(of.bits.data(), found, of.kept, threshold, 0);
}

// The slots of the candidates that reach `least`, ascending; returns their number.
int64_t order_by_slot(int64_t found, uint32_t least, TopK::Workspace& of) {
  for (int64_t i = 0; i < found; ++i) {
    const uint32_t position = of.candidates[size_t(i)];
    const auto b = static_cast<uint32_t>(position * of.by_rows >> 40);
    const uint32_t a = position - b * of.rows;
    const uint64_t taken = of.bits[size_t(i)] >= least ? 1 : 0;
    of.chosen[a * of.row_words + b / 64] |= taken << (b % 64);
  }
  uint32_t* out = of.ordered.data();
  uint64_t* word = of.chosen.data();
  for (uint32_t a = 0; a < of.rows; ++a) {
    for (uint32_t i = 0; i < of.row_words; ++i, ++word) {
      out = list_bits(*word, a * of.columns + 64 * i, out);
      *word = 0;
    }
  }
  return out - of.ordered.data();
}

int take_largest(float* tile, TopK::Workspace& of, uint16_t* slots, float* values,
                 uint32_t& guess) {
  const auto count = static_cast<int64_t>(of.size());
  // About a sixteenth below the least value taken the last time.
  constexpr uint32_t kSlack = 1u << 19;
  uint32_t threshold = guess > kSlack ? guess - kSlack : 0;
  int64_t found = 0;
  if (threshold > 0) found = mark_candidates(tile, count, threshold, of.marks.data());
  if (found < of.kept || found > 8 * of.kept) {
    threshold = lower_bound(tile, of);
    found = mark_candidates(tile, count, threshold, of.marks.data());
  }
  const uint32_t least = least_taken(tile, found, threshold, of);
  guess = least;
  const int64_t chosen = order_by_slot(found, least, of);
  // From the last slot to the first, so that among equal values the lowest slots remain to be
  // taken.
  const int64_t taken = std::min<int64_t>(chosen, of.kept);
  int64_t spare = chosen - taken;
  for (int64_t i = chosen, at = taken; i-- > 0;) {
    const uint32_t slot = of.ordered[size_t(i)];
    const auto a = static_cast<uint32_t>(slot * of.by_columns >> 40);
    float& value = tile[(slot - a * of.columns) * of.rows + a];
    if (spare > 0 && (std::bit_cast<uint32_t>(value) & 0x7fffffffu) == least) {
      --spare;
      continue;
    }
    slots[--at] = static_cast<uint16_t>(slot);
    values[at] = value;
    value = 0;
  }
  return static_cast<int>(taken);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::codec {
namespace {

HWY_EXPORT(take_largest);

}  // namespace

TopK::TopK(int rows, int columns, int kept)
    : workspace_(std::make_unique<Workspace>(rows, columns, kept)) {}

TopK::~TopK() = default;
TopK::TopK(TopK&&) noexcept = default;

int TopK::take(float* tile, uint16_t* slots, float* values, uint32_t& guess) {
  return HWY_DYNAMIC_DISPATCH(take_largest)(tile, *workspace_, slots, values, guess);
}

int64_t TopK::position(uint16_t slot) const {
  return int64_t{slot % workspace_->columns} * workspace_->rows + slot / workspace_->columns;
}

}  // namespace thinwire::codec
#endif
