// Values under a name, which lie elsewhere: state on its way between whoever holds it and whoever
// saves, restores or compares it.
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

// A piece of the state of a method, which may be written to.
struct StateTensor : NamedSpan<float> {
  StateTensor(std::string called, std::span<float> where, Agreement who = Agreement::kConsensus)
      : NamedSpan{std::move(called), where}, agreement(who) {}
  Agreement agreement;
};

}  // namespace thinwire
