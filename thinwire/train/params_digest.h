// Digest of memory that replicas share, compared between them every round: equal bits give equal
// digests.
#pragma once

#include <cstdint>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/threads.h"

namespace thinwire::train {

// An order-independent sum of chunk hashes (base/digest.h); it does not depend on the number of
// threads.
uint64_t bytes_digest(std::span<const uint8_t> bytes, ThreadPool& threads);
inline uint64_t values_digest(std::span<const float> values, ThreadPool& threads) {
  return bytes_digest(as_bytes(values), threads);
}

}  // namespace thinwire::train
