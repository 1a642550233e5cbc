// What is checked of memory that replicas share: its digest, which they compare every round (equal
// bits give equal digests), and whether its values are finite.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "thinwire/base/bytes.h"
#include "thinwire/base/named_span.h"
#include "thinwire/base/threads.h"
#include "thinwire/tensor/storage/arena.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::train {

// An order-independent sum of chunk hashes (base/digest.h); it does not depend on the number of
// threads.
uint64_t bytes_digest(std::span<const uint8_t> bytes, ThreadPool& threads);

// For one arena, whose digest is formed where its values are. Keeps its working memory.
class ArenaDigest {
 public:
  // bytes_digest() of the arena's bytes.
  uint64_t of(const tensor::Arena& values, ThreadPool& threads);

 private:
  struct OnDevice {
    tensor::DeviceScratch<uint64_t> accumulators;
    tensor::DeviceBuffer<uint64_t> hashes;
  };
  std::optional<OnDevice> on_device_;
};

// Whether weights and state hold neither infinities nor what is no number. Eight-bit codes are
// finite.
bool all_finite(const NamedValues& state, ThreadPool& threads);
bool all_finite(const tensor::Arena& weights, ThreadPool& threads);

}  // namespace thinwire::train
