#include "thinwire/data/shard.h"

#include <fstream>
#include <numeric>

#include "tests/data/scratch.h"
#include "thinwire/base/rng.h"
#include "thinwire/data/prepare.h"

namespace thinwire::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr uint64_t kVocabulary = 0x1234;

std::vector<int32_t> numbers(int32_t first, size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

void write_shard(const fs::path& path, const std::vector<int32_t>& tokens, int64_t size = 60000) {
  ShardWriter writer(path, kVocabulary, size);
  writer.add_document(std::span(tokens).first(tokens.size() / 2));
  writer.add_document(std::span(tokens).subspan(tokens.size() / 2));
  writer.commit();
}

void overwrite(const fs::path& path, uint64_t offset, uint8_t byte) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte));
}

TEST(Shard, ReadsBackWhatWasWrittenInBothWidths) {
  const fs::path path = scratch_folder() / shard_name(0);
  for (const auto& [size, width] : {std::pair{65536, 2u}, std::pair{65537, 4u}}) {
    const auto tokens = numbers(size - 100, 100);
    write_shard(path, tokens, size);
    const ShardReader shard(path);
    shard.verify();
    EXPECT_EQ(shard.header().token_bytes, width);
    EXPECT_EQ(shard.header().documents, 2u);
    EXPECT_EQ(fs::file_size(path), kShardHeaderBytes + 100 * width);
    std::vector<int32_t> read(40);
    shard.read(30, read);
    EXPECT_EQ(read, numbers(size - 70, 40));
  }
}

TEST(Shard, RefusesTokensOutsideTheVocabulary) {
  ShardWriter writer(scratch_folder() / shard_name(0), kVocabulary, 100);
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{100}), Error);
  EXPECT_THROW(writer.add_document(std::vector<int32_t>{-1}), Error);
}

TEST(Shard, DoesNotAppearBeforeItIsCommitted) {
  const fs::path folder = scratch_folder();
  {
    ShardWriter writer(folder / shard_name(0), kVocabulary, 100);
    writer.add_document(numbers(0, 100));
    EXPECT_FALSE(fs::exists(folder / shard_name(0)));
  }
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST(Shard, ReadingPastTheEndIsAnError) {
  const fs::path path = scratch_folder() / shard_name(0);
  write_shard(path, numbers(0, 10));
  const ShardReader shard(path);
  std::vector<int32_t> out(4);
  EXPECT_THROW(shard.read(7, out), Error);
  EXPECT_THROW(shard.read(~uint64_t{0} - 1, out), Error);
}

TEST(Shard, EveryTruncationIsNoticed) {
  const fs::path path = scratch_folder() / shard_name(0);
  write_shard(path, numbers(0, 10));
  for (uint64_t size = fs::file_size(path); size-- > 0;) {
    fs::resize_file(path, size);
    const std::string error = error_of([&] { const ShardReader shard(path); });
    EXPECT_THAT(error, AllOf(HasSubstr(path.string()),
                             HasSubstr(size == 0 ? "is not a Thinwire shard" : "is truncated")));
  }
}

TEST(Shard, EveryAlteredByteIsNoticed) {
  const fs::path path = scratch_folder() / shard_name(0);
  write_shard(path, numbers(0, 10));
  const std::string good = read_text_file(path);
  for (uint64_t offset = 0; offset < good.size(); ++offset) {
    overwrite(path, offset, 0xA5);
    const std::string error = error_of([&] { ShardReader(path).verify(); });
    EXPECT_THAT(error, HasSubstr(offset < 12 ? "is not a" : "is altered")) << offset;
    overwrite(path, offset, static_cast<uint8_t>(good[offset]));
  }
}

TEST(Shard, BytesBehindTheLastTokenAreNoticed) {
  const fs::path path = scratch_folder() / shard_name(0);
  write_shard(path, numbers(0, 10));
  fs::resize_file(path, fs::file_size(path) + 1);
  EXPECT_THAT(error_of([&] { const ShardReader shard(path); }), HasSubstr("is altered"));
}

TEST(Shard, ArbitraryBytesNeverCrash) {
  const fs::path path = scratch_folder() / shard_name(0);
  write_shard(path, numbers(0, 10));
  const std::string good = read_text_file(path);
  Rng rng(7, 0);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = good;
    for (uint64_t flips = 1 + rng.below(4); flips > 0; --flips) {
      bytes[8 + rng.below(48)] = static_cast<char>(rng.bits());
    }
    // With a correct hash of the header, so that the fields it protects are read.
    const uint64_t hash = hash_bytes(as_bytes(std::string_view(bytes).substr(0, 56)));
    std::memcpy(bytes.data() + 56, &hash, sizeof(hash));
    bytes.resize(rng.below(bytes.size() + 1));
    fs::remove(path);  // overwriting in place makes some file systems wait for the disk
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      const ShardReader shard(path);
      std::vector<int32_t> out(shard.tokens());
      shard.read(0, out);
      shard.verify();
    } catch (const Error&) {
      continue;
    }
  }
}

TEST(TokenSet, IsItsShardsInOrder) {
  const fs::path folder = scratch_folder();
  for (uint64_t i = 0; i < 3; ++i) {
    write_shard(folder / shard_name(i), numbers(static_cast<int32_t>(i) * 10, 10));
  }
  const TokenSet set = TokenSet::open(folder, kVocabulary, true);
  EXPECT_EQ(set.tokens(), 30u);
  EXPECT_EQ(set.documents(), 6u);
  for (uint64_t first = 0; first <= 30; ++first) {
    std::vector<int32_t> out(30 - first);
    set.read(first, out);
    EXPECT_EQ(out, numbers(static_cast<int32_t>(first), 30 - first));
  }
  std::vector<int32_t> out(2);
  EXPECT_THROW(set.read(29, out), Error);
}

TEST(TokenSet, RefusesAnotherVocabularysShards) {
  const fs::path folder = scratch_folder();
  write_shard(folder / shard_name(0), numbers(0, 10));
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, 99, false); }),
              AllOf(HasSubstr(shard_name(0)), HasSubstr("another vocabulary")));
}

TEST(TokenSet, NoticesAMissingShardAndAnEmptyFolder) {
  const fs::path folder = scratch_folder();
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, kVocabulary, false); }),
              HasSubstr("holds no shards"));
  EXPECT_THAT(error_of([&] { TokenSet::open(folder / "none", kVocabulary, false); }),
              HasSubstr("holds no shards"));
  write_shard(folder / shard_name(0), numbers(0, 10));
  write_shard(folder / shard_name(2), numbers(0, 10));
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, kVocabulary, false); }),
              AllOf(HasSubstr(shard_name(1)), HasSubstr("is missing")));
}

TEST(TokenSet, VerificationFindsAlteredTokens) {
  const fs::path folder = scratch_folder();
  write_shard(folder / shard_name(0), numbers(0, 10));
  overwrite(folder / shard_name(0), kShardHeaderBytes + 3, 0xFF);
  EXPECT_NO_THROW(TokenSet::open(folder, kVocabulary, false));
  EXPECT_THAT(error_of([&] { TokenSet::open(folder, kVocabulary, true); }), HasSubstr("checksum"));
}

TEST(Inspect, ShowsAShardAndWhetherItIsSound) {
  const fs::path path = scratch_folder() / shard_name(0);
  write_shard(path, numbers(0, 10));
  EXPECT_THAT(describe_shard(path), AllOf(HasSubstr("tokens        10"), HasSubstr(" ok\n")));
  overwrite(path, kShardHeaderBytes, 0xFF);
  EXPECT_THAT(describe_shard(path), HasSubstr("WRONG"));
}

}  // namespace
}  // namespace thinwire::data
