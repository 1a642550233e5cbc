// Whether the replicas must agree on a piece of state.
#pragma once

#include <cstdint>

namespace thinwire {

// State that can be derived from other state is not listed at all.
enum class Agreement : uint8_t {
  kConsensus,  // bit-identical on every replica after a synchronisation; digested, stored once
  kLocal,      // differs between workers; stored once per worker
};

}  // namespace thinwire
