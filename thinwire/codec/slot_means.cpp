#include "thinwire/codec/slot_means.h"

#include <algorithm>

#include "thinwire/tensor/kernels/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "thinwire/codec/slot_means.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#ifndef THINWIRE_CODEC_SLOT_MEANS_ONCE
#define THINWIRE_CODEC_SLOT_MEANS_ONCE
namespace thinwire::codec {

// Arrays for one tile, padded to whole vectors, and the results, with room for one more vector.
struct SlotSums {
  float* sums;
  uint16_t* senders;
  uint32_t* found_slots;
  float* found_sums;
  uint32_t* found_senders;
};

}  // namespace thinwire::codec
#endif

HWY_BEFORE_NAMESPACE();
namespace thinwire::codec {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using D32 = hn::RebindToUnsigned<D>;

// Moves the sums and counts of slots that were sent to the front of the lists, and clears the
// arrays. Stores whole vectors: storing only the chosen lanes is very slow on some processors.
int64_t collect(int64_t count, const SlotSums& of) {
  const D d;
  const D32 d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t found = 0;
  for (int64_t i = 0; i < count; i += lanes) {
    const auto senders = hn::PromoteTo(d32, hn::LoadU(d16, of.senders + i));
    const auto sent = hn::Ne(senders, hn::Zero(d32));
    if (hn::AllFalse(d32, sent)) continue;
    const auto slots = hn::Iota(d32, static_cast<uint32_t>(i));
    hn::StoreU(hn::Compress(slots, sent), d32, of.found_slots + found);
    hn::StoreU(hn::Compress(senders, sent), d32, of.found_senders + found);
    const auto sums = hn::LoadU(d, of.sums + i);
    hn::StoreU(hn::Compress(sums, hn::RebindMask(d, sent)), d, of.found_sums + found);
    found += static_cast<int64_t>(hn::CountTrue(d32, sent));
    hn::StoreU(hn::Zero(d), d, of.sums + i);
    hn::StoreU(hn::Zero(d16), d16, of.senders + i);
  }
  return found;
}

// 1 / n for n >= 1, rounded, and a finite number for 0. Up to 32 they come from a table, because
// divisions take longer than everything else here.
class Reciprocals {
 public:
#if HWY_TARGET <= HWY_AVX3
  HWY_INLINE Reciprocals() {
    const D d;
    const auto from = [&](float n) HWY_ATTR { return hn::Div(hn::Set(d, 1.0f), hn::Iota(d, n)); };
    low_ = hn::IfThenElse(hn::FirstN(d, 1), hn::Set(d, 1.0f / 32), from(0));
    high_ = from(16);
  }
#endif
  HWY_INLINE hn::Vec<D> operator()(hn::Vec<D32> n) const {
    const D d;
    const hn::RebindToSigned<D> di32;
#if HWY_TARGET <= HWY_AVX3
    const D32 d32;
    if (hn::AllFalse(d32, hn::Gt(n, hn::Set(d32, 32)))) {  // the lookup uses the lowest five bits
      return hn::Vec<D>{_mm512_permutex2var_ps(low_.raw, n.raw, high_.raw)};
    }
#endif
    const auto divisor = hn::ConvertTo(d, hn::Max(hn::BitCast(di32, n), hn::Set(di32, 1)));
    return hn::Div(hn::Set(d, 1.0f), divisor);
  }

#if HWY_TARGET <= HWY_AVX3
 private:
  hn::Vec<D> low_, high_;  // by the lowest five bits of n
#endif
};

// means = sums times the reciprocal of senders, or of members if that is not 0; in whole vectors.
void average_found(int64_t count, uint32_t members, const SlotSums& of, uint16_t* slots,
                   float* means) {
  const D d;
  const D32 d32;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<uint16_t, D> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Reciprocals reciprocals;
  const auto all = hn::Set(d, 1.0f / static_cast<float>(std::max(members, 1u)));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto by = members == 0 ? reciprocals(hn::LoadU(d32, of.found_senders + i)) : all;
    hn::StoreU(hn::Mul(hn::LoadU(d, of.found_sums + i), by), d, means + i);
    const auto found = hn::BitCast(di32, hn::LoadU(d32, of.found_slots + i));
    hn::StoreU(hn::DemoteTo(d16, found), d16, slots + i);
  }
}

// The same for all sums, which are cleared with their counts; a sum without senders is zero.
void average_all(int64_t count, uint32_t members, const SlotSums& of, float* means) {
  const D d;
  const D32 d32;
  const hn::Rebind<uint16_t, D> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Reciprocals reciprocals;
  const auto all = hn::Set(d, 1.0f / static_cast<float>(std::max(members, 1u)));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto senders = hn::PromoteTo(d32, hn::LoadU(d16, of.senders + i));
    const auto by = members == 0 ? reciprocals(senders) : all;
    hn::StoreU(hn::Mul(hn::LoadU(d, of.sums + i), by), d, means + i);
    hn::StoreU(hn::Zero(d), d, of.sums + i);
    hn::StoreU(hn::Zero(d16), d16, of.senders + i);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace thinwire::codec
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thinwire::codec {
namespace {

HWY_EXPORT(collect);
HWY_EXPORT(average_found);
HWY_EXPORT(average_all);

}  // namespace

SlotMeans::SlotMeans(int slots)
    : sums_(static_cast<size_t>(slots + kPadding)),
      senders_(sums_.size()),
      found_sums_(sums_.size()),
      found_senders_(sums_.size()),
      found_slots_(sums_.size()) {}

void SlotMeans::add(const uint16_t* slots, const float* values, uint32_t count,
                    const uint16_t* places) {
  float* const sums = sums_.data();
  uint16_t* const senders = senders_.data();
  for (uint32_t i = 0; i < count; ++i) {
    const size_t place = places == nullptr ? slots[i] : places[slots[i]];
    sums[place] += values[i];
    ++senders[place];
  }
}

uint32_t SlotMeans::take(int tile_slots, uint32_t members, uint16_t* slots, float* means) {
  const SlotSums of = {sums_.data(), senders_.data(), found_slots_.data(), found_sums_.data(),
                       found_senders_.data()};
  const int64_t found = HWY_DYNAMIC_DISPATCH(collect)(tile_slots, of);
  HWY_DYNAMIC_DISPATCH(average_found)(found, members, of, slots, means);
  return static_cast<uint32_t>(found);
}

void SlotMeans::take_all(int places, uint32_t members, float* means) {
  const SlotSums of = {sums_.data(), senders_.data(), nullptr, nullptr, nullptr};
  HWY_DYNAMIC_DISPATCH(average_all)(places, members, of, means);
}

}  // namespace thinwire::codec
#endif
