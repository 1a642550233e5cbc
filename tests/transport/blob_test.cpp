#include "thinwire/transport/courier/blob.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "courier_contract.h"

namespace thinwire::transport {
namespace {

// Assembles from chunks, all of which are there, in the order in which they are asked for.
Bytes assembled(const BlobChunks& blob) {
  BlobAssembly assembly(blob.id());
  while (const auto name = assembly.next()) {
    const auto chunk =
        std::ranges::find(blob.chunks(), *name, [](const Chunk& one) { return one.name; });
    if (chunk == blob.chunks().end() || !assembly.add(*name, chunk->bytes)) break;
  }
  return assembly.complete() ? assembly.take() : Bytes();
}

TEST(Blob, AShortOneIsNamedByItsHash) {
  const Bytes bytes = {'a', 'b', 'c'};
  EXPECT_EQ(blob_id(bytes).name, sha256(bytes));
  EXPECT_EQ(blob_id(bytes).bytes, 3u);
  EXPECT_EQ(blob_id({}).name, sha256({}));
}

// docs/formats.md.
TEST(Blob, ALongOneIsNamedByTheHashesOfItsChunks) {
  const Bytes bytes = random_bytes(2 * kMaxMessageBytes + 1, 1);
  Bytes names;
  for (size_t at = 0; at < bytes.size(); at += kMaxMessageBytes) {
    const size_t size = std::min(kMaxMessageBytes, bytes.size() - at);
    ByteWriter(names).put_bytes(sha256(std::span(bytes).subspan(at, size)).bytes);
  }
  EXPECT_EQ(blob_id(bytes).name, sha256(names));
  EXPECT_EQ(BlobChunks(std::make_shared<const Bytes>(bytes)).id(), blob_id(bytes));
}

TEST(Blob, IsAssembledFromItsChunks) {
  for (const size_t size : {size_t{1}, kMaxMessageBytes, 5 * kMaxMessageBytes + 17}) {
    const auto bytes = std::make_shared<const Bytes>(random_bytes(size, size));
    EXPECT_EQ(assembled(BlobChunks(bytes)), *bytes);
  }
}

// Chunks that are alike are stored and fetched once.
TEST(Blob, ItsListNamesItsChunks) {
  const auto bytes = std::make_shared<const Bytes>(random_bytes(2 * kMaxMessageBytes + 1, 3));
  const BlobChunks blob(bytes);
  const auto list = list_of(blob.id());
  ASSERT_TRUE(list);
  const Chunk& last = blob.chunks().back();  // the list itself, which is one chunk here
  EXPECT_EQ(*list, (BlobId{last.name, last.bytes.size()}));
  std::vector<Sha256> names;
  for (const Chunk& chunk : blob.chunks()) names.push_back(chunk.name);
  EXPECT_EQ(chunk_names(std::make_shared<const Bytes>(last.bytes.begin(), last.bytes.end())),
            names);
  EXPECT_FALSE(list_of(blob_id(Bytes(kMaxMessageBytes)))) << "it is one chunk";
}

TEST(Blob, LikeChunksAreAskedForOnce) {
  const auto zeros = std::make_shared<const Bytes>(4 * kMaxMessageBytes);
  const BlobChunks blob(zeros);
  BlobAssembly assembly(blob.id());
  size_t asked = 0;
  while (const auto name = assembly.next()) {
    const auto chunk =
        std::ranges::find(blob.chunks(), *name, [](const Chunk& one) { return one.name; });
    ASSERT_TRUE(assembly.add(*name, chunk->bytes));
    ++asked;
  }
  EXPECT_EQ(asked, 2u);
  EXPECT_EQ(assembly.take(), *zeros);
}

TEST(Blob, AlteredUnknownAndMisplacedChunksAreRefused) {
  const BlobChunks blob(std::make_shared<const Bytes>(random_bytes(2 * kMaxMessageBytes, 1)));
  const Chunk names = blob.chunks().back();
  BlobAssembly assembly(blob.id());
  Bytes altered(names.bytes.begin(), names.bytes.end());
  altered[3] ^= 1;
  EXPECT_FALSE(assembly.add(names.name, altered));
  EXPECT_FALSE(assembly.add(names.name, names.bytes.first(32)));
  const Chunk first = blob.chunks().front();
  EXPECT_FALSE(assembly.add(first.name, first.bytes)) << "its name is not known yet";
  EXPECT_TRUE(assembly.add(names.name, names.bytes));
  EXPECT_TRUE(assembly.add(first.name, first.bytes));
  EXPECT_FALSE(assembly.add(first.name, first.bytes)) << "it is there already";
  EXPECT_FALSE(assembly.complete());
}

// A list of names whose author claims one chunk for a whole place and for the last, shorter one.
TEST(Blob, AChunkCannotStandAtPlacesOfTwoLengths) {
  const Bytes chunk(kMaxMessageBytes, 7);
  Bytes names;
  for (int i = 0; i < 2; ++i) ByteWriter(names).put_bytes(sha256(chunk).bytes);
  BlobAssembly assembly({sha256(names), kMaxMessageBytes + 1});
  ASSERT_TRUE(assembly.add(sha256(names), names));
  EXPECT_FALSE(assembly.add(sha256(chunk), chunk));
}

}  // namespace
}  // namespace thinwire::transport
