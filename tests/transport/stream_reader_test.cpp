#include "thinwire/transport/courier/stream_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/base/rng.h"

namespace thinwire::transport {
namespace {

std::vector<uint64_t> asked(StreamReader& reader) {
  std::vector<uint64_t> all;
  while (const auto sequence = reader.next_to_ask()) all.push_back(*sequence);
  return all;
}

std::vector<uint64_t> taken(StreamReader& reader) {
  std::vector<uint64_t> all;
  while (const auto record = reader.take()) all.push_back(record->first);
  return all;
}

using testing::ElementsAre;
using testing::IsEmpty;

TEST(StreamReader, AsksForMoreTheMoreThereIs) {
  StreamReader reader(3);
  EXPECT_THAT(asked(reader), ElementsAre(3));
  reader.found(3, {});
  EXPECT_THAT(taken(reader), ElementsAre(3));
  EXPECT_THAT(asked(reader), ElementsAre(4, 5));
  reader.found(5, {});
  EXPECT_THAT(taken(reader), IsEmpty());
  reader.found(4, {});
  EXPECT_THAT(taken(reader), ElementsAre(4, 5));
}

TEST(StreamReader, StopsAtTheEndUntilItIsToLookAgain) {
  StreamReader reader(1);
  EXPECT_THAT(asked(reader), ElementsAre(1));
  reader.missing(1);
  EXPECT_THAT(asked(reader), IsEmpty());
  reader.expect_more();
  EXPECT_THAT(asked(reader), ElementsAre(1));
}

TEST(StreamReader, WhatIsHeardNeedsNoAsking) {
  StreamReader reader(1);
  asked(reader);
  reader.missing(1);
  reader.announced(1, {});
  EXPECT_THAT(taken(reader), ElementsAre(1));
  EXPECT_THAT(asked(reader), IsEmpty());
  reader.announced(4, {});
  EXPECT_THAT(asked(reader), ElementsAre(2)) << "2 and 3 were missed";
}

// Answers late, doubled, lost; announcements lost; connections lost: all arrive once and in order.
TEST(StreamReader, ReadsEverythingOnceWhateverHappens) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(seed, 1);
    StreamReader reader(1);
    std::vector<uint64_t> open;
    uint64_t last = 0, next = 1;
    for (int event = 0; event < 3000; ++event) {
      if (last < 100 && rng.below(4) == 0) {
        ++last;
        if (rng.below(2) == 0) reader.announced(last, {});
      }
      for (const uint64_t sequence : asked(reader)) open.push_back(sequence);
      if (!open.empty() && rng.below(2) == 0) {
        const size_t which = rng.below(open.size());
        const uint64_t sequence = open[which];
        if (rng.below(8) != 0) open.erase(open.begin() + static_cast<ptrdiff_t>(which));
        if (rng.below(10) == 0) {
          reader.unanswered(sequence);
        } else if (sequence <= last) {
          reader.found(sequence, {});
        } else {
          reader.missing(sequence);
        }
      }
      if (rng.below(20) == 0) reader.expect_more();
      if (rng.below(100) == 0) reader.forget_requests();
      for (const uint64_t sequence : taken(reader)) ASSERT_EQ(sequence, next++);
    }
    EXPECT_EQ(next, 101u) << seed;
  }
}

}  // namespace
}  // namespace thinwire::transport
