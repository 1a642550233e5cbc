// Named views of values stored elsewhere: state is passed in this form from its owner to the code
// that saves, restores or compares it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "thinwire/base/bytes.h"
#include "thinwire/base/tensor_view.h"

namespace thinwire {

// Whether the replicas must agree on a piece of state.

// State that can be derived from other state is not listed at all.
enum class Agreement : uint8_t {
  kConsensus,  // bit-identical on every replica after a synchronisation; digested, stored once
  kLocal,      // differs between workers; stored once per worker
};

template <typename T>
struct NamedSpan {
  std::string name;  // e.g. "adamw.m"
  std::span<T> values;
};

using NamedBytes = NamedSpan<const uint8_t>;

// State in the type in which it is kept. `values` is empty unless that is fp32.
struct NamedValues : NamedSpan<const float> {
  NamedValues(std::string called, std::span<const float> where)
      : NamedSpan{std::move(called), where}, bytes(as_bytes(where)) {}
  NamedValues(std::string called, DType type, std::span<const uint8_t> memory)
      : NamedSpan{std::move(called), {}}, dtype(type), bytes(memory) {}

  DType dtype = DType::kF32;
  std::span<const uint8_t> bytes;
};

// A writable piece of a method's state; `values` is empty unless it is fp32. Bytes of 0 are zeros
// in every type.
struct StateTensor : NamedSpan<float> {
  StateTensor(std::string called, std::span<float> where, Agreement who = Agreement::kConsensus)
      : NamedSpan{std::move(called), where},
        agreement(who),
        bytes(reinterpret_cast<uint8_t*>(where.data()), where.size_bytes()) {}
  StateTensor(std::string called, DType type, std::span<uint8_t> memory, Agreement who)
      : NamedSpan{std::move(called), {}}, agreement(who), dtype(type), bytes(memory) {}

  NamedValues view() const {
    return dtype == DType::kF32 ? NamedValues(name, values) : NamedValues(name, dtype, bytes);
  }

  Agreement agreement;
  DType dtype = DType::kF32;
  std::span<uint8_t> bytes;
};

}  // namespace thinwire
