// Runs the fuzz target briefly: on encoded values, damaged ones, and noise.
#include "thinwire/codec/wire.h"

#include <gtest/gtest.h>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

TEST(WireFuzz, TargetSurvivesDamagedValuesAndNoise) {
  Rng rng(2, 1);
  for (int round = 0; round < 20000; ++round) {
    const auto type = static_cast<WireType>(round % static_cast<int>(kWireNames.size()));
    Bytes input = {static_cast<uint8_t>(type), static_cast<uint8_t>(rng.below(256))};
    std::vector<float> values(size_t{input[1]} * 3);
    for (float& value : values) value = static_cast<float>(rng.normal());
    input.resize(2 + wire_bytes(type, values.size()));
    wire_codec(type).encode(values, std::span(input).subspan(2));
    for (uint64_t i = 0; i < rng.below(6); ++i) {
      input[2 + rng.below(input.size() - 1) - 1] = static_cast<uint8_t>(rng.bits());
    }
    if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
    fuzz_wire(input.data(), input.size());
    for (size_t i = 2; i < input.size(); ++i) input[i] = static_cast<uint8_t>(rng.bits());
    fuzz_wire(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::codec
