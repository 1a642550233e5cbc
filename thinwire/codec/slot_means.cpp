#include "thinwire/codec/slot_means.h"

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

// means = sums / senders, or / members if that is not 0; in whole vectors.
void divide(int64_t count, uint32_t members, const SlotSums& of, uint16_t* slots, float* means) {
  const D d;
  const hn::RebindToSigned<D> di32;
  const hn::Rebind<uint16_t, D> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto integers = [&](const uint32_t* from) HWY_ATTR {
    return hn::LoadU(di32, reinterpret_cast<const int32_t*>(from));
  };
  const auto all = hn::Set(d, static_cast<float>(members));
  for (int64_t i = 0; i < count; i += lanes) {
    const auto by = members == 0 ? hn::ConvertTo(d, integers(of.found_senders + i)) : all;
    hn::StoreU(hn::Div(hn::LoadU(d, of.found_sums + i), by), d, means + i);
    hn::StoreU(hn::DemoteTo(d16, integers(of.found_slots + i)), d16, slots + i);
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
HWY_EXPORT(divide);

}  // namespace

SlotMeans::SlotMeans(int slots)
    : sums_(static_cast<size_t>(slots + kPadding)),
      senders_(sums_.size()),
      found_sums_(sums_.size()),
      found_senders_(sums_.size()),
      found_slots_(sums_.size()) {}

void SlotMeans::add(const uint16_t* slots, const float* values, uint32_t count) {
  float* const sums = sums_.data();
  uint16_t* const senders = senders_.data();
  for (uint32_t i = 0; i < count; ++i) {
    sums[slots[i]] += values[i];
    ++senders[slots[i]];
  }
}

uint32_t SlotMeans::take(int tile_slots, uint32_t members, uint16_t* slots, float* means) {
  const SlotSums of = {sums_.data(), senders_.data(), found_slots_.data(), found_sums_.data(),
                       found_senders_.data()};
  const int64_t found = HWY_DYNAMIC_DISPATCH(collect)(tile_slots, of);
  HWY_DYNAMIC_DISPATCH(divide)(found, members, of, slots, means);
  return static_cast<uint32_t>(found);
}

}  // namespace thinwire::codec
#endif
