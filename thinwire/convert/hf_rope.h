// The rotary positions of a Hugging Face config.json: rope_theta with rope_scaling (transformers
// 4.x), or both in rope_parameters (5.x).
#pragma once

#include <cstdint>

#include "thinwire/base/rope.h"
#include "thinwire/convert/hf_fields.h"

namespace thinwire::convert {

// positions: max_position_embeddings, the context before scaling where the file names no other.
// Throws Error naming the file and the field for a scaling that Thinwire does not compute, for
// values that make no sense, and if both places contradict each other.
RopeSpec read_rope(const HfFields& config, int64_t positions);

// Adds the fields of both versions.
void print_rope(const RopeSpec& rope, HfJson& json);

}  // namespace thinwire::convert
