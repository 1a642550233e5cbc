// A named view of values stored elsewhere: state is passed in this form from its owner to the code
// that saves, restores or compares it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "thinwire/base/agreement.h"

namespace thinwire {

template <typename T>
struct NamedSpan {
  std::string name;  // e.g. "adamw.m"
  std::span<T> values;
};

using NamedValues = NamedSpan<const float>;
using NamedBytes = NamedSpan<const uint8_t>;

// A writable piece of a method's state.
struct StateTensor : NamedSpan<float> {
  StateTensor(std::string called, std::span<float> where, Agreement who = Agreement::kConsensus)
      : NamedSpan{std::move(called), where}, agreement(who) {}
  Agreement agreement;
};

}  // namespace thinwire
