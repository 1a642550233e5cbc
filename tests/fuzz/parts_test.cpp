// Runs the fuzz target of the parts of records briefly: on headers of parts, damaged ones, and
// noise.
#include <gtest/gtest.h>

#include <vector>

#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"
#include "thinwire/membership/ledger.h"

namespace thinwire::membership {
namespace {

TEST(PartsFuzz, TargetSurvivesHeadersDamagedAndNoise) {
  Rng rng(7, 1);
  const Bytes part = messages_of(Bytes(kMaxRecordMessage + 100, 3)).back();
  for (int round = 0; round < 300; ++round) {
    Bytes input = {0};
    ByteWriter writer(input);
    for (int message = 0; message < 3; ++message) {
      writer.put(static_cast<uint16_t>(part.size() - 4));
      writer.put_bytes(std::span(part).subspan(4));
      if (rng.below(2) == 0)
        input[1 + rng.below(input.size() - 1)] = static_cast<uint8_t>(rng.bits());
    }
    fuzz_parts(input.data(), input.size());
    input.resize(1 + rng.below(40));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_parts(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::membership
