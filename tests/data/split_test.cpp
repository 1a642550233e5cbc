#include "thinwire/data/split.h"

#include <gtest/gtest.h>

namespace thinwire::data {
namespace {

struct Counts {
  uint64_t held_out = 0;
  uint64_t blocks = 0;
};

Counts count(const Split& split, uint64_t documents) {
  Counts counts;
  bool before = false;
  for (uint64_t document = 0; document < documents; ++document) {
    const bool now = split.for_validation(document);
    counts.held_out += now ? 1 : 0;
    counts.blocks += now && !before ? 1 : 0;
    before = now;
  }
  return counts;
}

config::DataSection section(double fraction, int64_t block = 0) {
  config::DataSection data;
  data.validation_fraction = fraction;
  data.validation_block = block;
  return data;
}

TEST(Split, LongTextsHaveBlocksOf64) {
  const auto data = section(0.01);
  EXPECT_EQ(split_of(data, {100'000, 1u << 30}), Split(0.01, 64));
  EXPECT_EQ(split_of(data, {3200, 1u << 20}), Split(0.01, 64));
}

// A reader that stops as soon as no more is needed makes the same split as one that reads to the
// end.
TEST(Split, TheFirstDocumentsDecideOnceTheyAreEnough) {
  for (const double fraction : {0.001, 0.01, 0.1, 0.3, 0.5}) {
    const auto data = section(fraction);
    TextSize size;
    while (split_needs_more(data, size)) {
      ++size.documents;
      size.bytes += 100;
    }
    EXPECT_LE(size.documents, 64 / fraction) << fraction;
    EXPECT_EQ(split_of(data, size), split_of(data, {1'000'000, 1u << 30})) << fraction;
  }
}

TEST(Split, ShortTextsHoldOutWhatIsAskedForInSmallerBlocks) {
  const auto data = section(0.01);
  EXPECT_EQ(count(split_of(data, {1631, 2'000'000}), 1631).held_out, 16u);
  EXPECT_EQ(count(split_of(data, {140, 2'000'000}), 140).held_out, 1u);
}

TEST(Split, EveryTextOfTwoDocumentsOrMoreHasBothSides) {
  for (const double fraction : {0.0001, 0.01, 0.2, 0.5}) {
    for (uint64_t documents = 2; documents < 4000; documents += 1 + documents / 50) {
      for (const uint64_t bytes : {2 * documents, 500 * documents}) {
        const Split split = split_of(section(fraction), {documents, bytes});
        const Counts counts = count(split, documents);
        EXPECT_GE(counts.held_out, 1u) << documents << " documents, fraction " << fraction;
        EXPECT_LT(counts.held_out, documents) << documents << " documents, fraction " << fraction;
      }
    }
  }
}

TEST(Split, ShortTextsHoldOutEnoughToMeasureALoss) {
  // 8 kB: a tenth; 100 kB: 4 kB.
  EXPECT_EQ(count(split_of(section(0.01), {100, 8000}), 100).held_out, 8u);
  EXPECT_EQ(count(split_of(section(0.01), {1000, 100'000}), 1000).held_out, 32u);
}

TEST(Split, AGivenBlockIsTakenAsItIs) {
  EXPECT_FALSE(split_needs_more(section(0.01, 64), {}));
  EXPECT_EQ(split_of(section(0.01, 7), {10, 1000}), Split(0.01, 7));
  EXPECT_FALSE(split_needs_more(section(0), {}));
  EXPECT_EQ(count(split_of(section(0), {}), 10'000).held_out, 0u);
}

}  // namespace
}  // namespace thinwire::data
