// Runs the fuzz target briefly: on values of every kind, and on noise.
#include <gtest/gtest.h>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"

namespace thinwire::codec {
namespace {

TEST(PayloadFuzz, TargetSurvivesNoiseOfEveryLength) {
  Rng rng(1, 1);
  for (int round = 0; round < 40000; ++round) {
    Bytes input(1 + rng.below(round % 8 == 0 ? 600 : 80));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    if (rng.below(4) == 0) {  // small numbers get further than large ones
      for (size_t i = 1; i < input.size(); ++i) input[i] &= 3;
    }
    fuzz_payload(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::codec
