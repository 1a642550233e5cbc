#include "thinwire/base/digest.h"

#include <gtest/gtest.h>

#include <vector>

#include "thinwire/base/bytes.h"

namespace thinwire {
namespace {

TEST(HashBytes, IsXxh3) {
  // The published hash of no bytes.
  EXPECT_EQ(hash_bytes({}), 0x2d06800538d394c2u);
  EXPECT_NE(hash_bytes({}, 1), hash_bytes({}));
}

TEST(StreamHash, DoesNotDependOnWhereTheDataIsCut) {
  const std::vector<uint8_t> data(1000, 42);
  const std::span<const uint8_t> all(data);
  for (const size_t cut : {0u, 1u, 255u, 1000u}) {
    StreamHash hash;
    hash.update(all.first(cut));
    hash.update(all.subspan(cut));
    EXPECT_EQ(hash.value(), hash_bytes(all)) << cut;
  }
}

TEST(Digest, DoesNotDependOnTheOrderOfChunksOrParts) {
  Digest forwards;
  forwards.add(0, as_bytes("first"));
  forwards.add(1, as_bytes("second"));
  forwards.add(2, as_bytes("third"));
  Digest part;
  part.add(2, as_bytes("third"));
  part.add(0, as_bytes("first"));
  Digest backwards;
  backwards.add(1, as_bytes("second"));
  backwards.add(part);
  EXPECT_EQ(backwards.value(), forwards.value());
}

TEST(Digest, NoticesSwappedChunksAndChangedBits) {
  Digest digest;
  digest.add(0, as_bytes("first"));
  digest.add(1, as_bytes("other"));
  Digest swapped;
  swapped.add(0, as_bytes("other"));
  swapped.add(1, as_bytes("first"));
  Digest changed;
  changed.add(0, as_bytes("fIrst"));
  changed.add(1, as_bytes("other"));
  EXPECT_NE(swapped.value(), digest.value());
  EXPECT_NE(changed.value(), digest.value());
}

TEST(ToHex, HasSixteenDigits) {
  EXPECT_EQ(to_hex(0), "0000000000000000");
  EXPECT_EQ(to_hex(0xfedcba9876543210u), "fedcba9876543210");
}

}  // namespace
}  // namespace thinwire
