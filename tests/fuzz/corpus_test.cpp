// Runs fuzz targets on what libFuzzer has found to reach something new in them.
#include "corpus.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "target.h"

namespace thinwire {
namespace {

struct Saved {
  std::string name;
  int (*target)(const uint8_t*, size_t);
};

TEST(SavedCorpora, AreSurvivedByTheirTargets) {
  for (const Saved& saved : {Saved{"answer", fuzz_answer}, Saved{"record", fuzz_record},
                             Saved{"statement", fuzz_statement}, Saved{"summary", fuzz_summary}}) {
    const std::vector<Bytes> inputs = tests::saved_corpus(saved.name);
    EXPECT_GE(inputs.size(), 20u) << saved.name;
    for (const Bytes& input : inputs) saved.target(input.data(), input.size());
  }
}

}  // namespace
}  // namespace thinwire
