// A snapshot: what a member needs to start in the middle of a run, as bytes: the weights and the
// state on which all replicas agree. docs/formats.md, "Snapshots".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/base/named_span.h"

namespace thinwire::member {

struct RunSnapshot {
  uint64_t run = 0;
  int64_t completed = 0;       // training steps
  std::vector<float> weights;  // as in the parameters' arena (tensor/storage/arena.h)
  std::map<std::string, std::vector<float>> consensus;
};

Bytes encode_snapshot(uint64_t run, int64_t completed, std::span<const float> weights,
                      std::span<const NamedValues> consensus);

// Total: any bytes give a snapshot or kCorruptPayload with a reason. Allocates no more than the
// input's size. All values are finite.
Result<RunSnapshot> decode_snapshot(std::span<const uint8_t> bytes);

}  // namespace thinwire::member
