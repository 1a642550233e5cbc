// Runs the fuzz target of ledger records briefly: on the saved corpus, on records of a run, damaged
// ones, and noise.
#include <gtest/gtest.h>

#include <vector>

#include "corpus.h"
#include "target.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/rng.h"

namespace thinwire::membership {
namespace {

TEST(RecordFuzz, TargetSurvivesTheCorpusDamagedAndNoise) {
  const std::vector<Bytes> inputs = tests::saved_corpus("record");
  ASSERT_FALSE(inputs.empty());
  Rng rng(6, 1);
  for (const Bytes& input : inputs) fuzz_record(input.data(), input.size());
  for (int round = 0; round < 5000; ++round) {
    Bytes input = inputs[rng.below(inputs.size())];
    for (uint64_t i = 0; i < rng.below(6) && !input.empty(); ++i) {
      input[rng.below(input.size())] = static_cast<uint8_t>(rng.bits());
    }
    if (rng.below(4) == 0) input.resize(rng.below(input.size() + 1));
    fuzz_record(input.data(), input.size());
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(rng.bits());
    fuzz_record(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire::membership
