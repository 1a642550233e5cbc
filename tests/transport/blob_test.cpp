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
        std::ranges::find(blob.chunks(), *name, [](const Chunk& one) { return one.key.chunk; });
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

TEST(Blob, ItsListNamesItsChunks) {
  const auto bytes = std::make_shared<const Bytes>(random_bytes(2 * kMaxMessageBytes + 1, 3));
  const BlobChunks blob(bytes);
  const auto list = list_of(blob.id());
  ASSERT_TRUE(list);
  const Chunk& last = blob.chunks().back();  // the list itself, which is one chunk here
  EXPECT_EQ(*list, (BlobId{last.key.chunk, last.bytes.size()}));
  std::vector<Sha256> names;
  for (const Chunk& chunk : blob.chunks()) names.push_back(chunk.key.chunk);
  names.pop_back();
  EXPECT_EQ(listed_names(last.bytes), names);
  EXPECT_FALSE(list_of(blob_id(Bytes(kMaxMessageBytes)))) << "it is one chunk";
}

TEST(Blob, HasAsManyChunksAsItsLengthSays) {
  for (const size_t size : {size_t{0}, size_t{1}, kMaxMessageBytes, kMaxMessageBytes + 1}) {
    const BlobChunks blob(std::make_shared<const Bytes>(random_bytes(size, 1)));
    EXPECT_EQ(chunks_in(size), blob.chunks().size());
  }
  EXPECT_EQ(chunks_in((uint64_t{8192} << 18) + 1), 8193u + 2 + 1) << "lists of lists";
}

TEST(Blob, EachOfItsChunksHasAKey) {
  const BlobChunks blob(std::make_shared<const Bytes>(random_bytes(2 * kMaxMessageBytes, 1)));
  for (const Chunk& chunk : blob.chunks()) {
    EXPECT_EQ(chunk.key.blob, blob.id().name);
    EXPECT_EQ(parse_key(print_key(chunk.key, '.'), '.'), chunk.key);
  }
  const std::string name(64, 'a');
  EXPECT_EQ(print_key({blob.id().name, blob.id().name}, '-'), to_hex(blob.id().name) + "-0");
  EXPECT_TRUE(parse_key(name + ".0", '.'));
  for (const std::string& other : {name, name + ".", name + ".1", name + "-0", name + "." + name}) {
    EXPECT_FALSE(parse_key(other, '.')) << other;
  }
}

// Chunks that are alike are stored and fetched once.
TEST(Blob, LikeChunksAreAskedForOnce) {
  const auto zeros = std::make_shared<const Bytes>(4 * kMaxMessageBytes);
  const BlobChunks blob(zeros);
  BlobAssembly assembly(blob.id());
  size_t asked = 0;
  while (const auto name = assembly.next()) {
    const auto chunk =
        std::ranges::find(blob.chunks(), *name, [](const Chunk& one) { return one.key.chunk; });
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
  EXPECT_FALSE(assembly.add(names.key.chunk, altered));
  EXPECT_FALSE(assembly.add(names.key.chunk, names.bytes.first(32)));
  const Chunk first = blob.chunks().front();
  EXPECT_FALSE(assembly.add(first.key.chunk, first.bytes)) << "its name is not known yet";
  EXPECT_TRUE(assembly.add(names.key.chunk, names.bytes));
  EXPECT_TRUE(assembly.add(first.key.chunk, first.bytes));
  EXPECT_FALSE(assembly.add(first.key.chunk, first.bytes)) << "it is there already";
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
