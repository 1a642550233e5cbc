#include "thinwire/hosts/fetched_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/data/rows.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::hosts {
namespace {

using testing::HasSubstr;

constexpr uint64_t kMuch = 1 << 30;
constexpr AgreementKey kKey = {1};

// A coordinator's files, and a member that has their shards' headers only.
class FetchedShardsTest : public testing::Test {
 protected:
  FetchedShardsTest() {
    const auto vocabulary = data::Vocabulary::load(tokens_);
    description_.vocabulary = describe_vocabulary(*vocabulary);
    whole_ = data::open_sets(tokens_, vocabulary->digest());
    description_.sets = describe_sets(whole_);
    std::vector<Bytes> headers;
    for (const DataFile& one : data_files(description_)) {
      files_[one.blob.name] = {tokens_ / one.file, 0, one.blob.bytes};
      if (one.file == description_.vocabulary->file) continue;
      const std::vector<FileRange> header{{one.blob.name, 0, data::kShardHeaderBytes}};
      headers.push_back(*read_ranges(files_, header));
      shards_.emplace(here_ / one.file, one.blob);
    }
    Reception reception;
    reception.fetch = [&](const transport::BlobId& blob) {
      return read_part(files_.at(blob.name), blob.name);
    };
    receive_headers(here_, description_, reception, headers);
  }
  ~FetchedShardsTest() override { fs::remove_all(folder_); }

  FetchedShards::Ask ask() {
    return [this](std::span<const FileRange> ranges, const std::atomic<bool>&) {
      ++asked_;
      const auto decoded = decode_parts(encode_parts(kKey, ranges));
      return decoded ? read_ranges(files_, decoded->ranges) : tl::unexpected(decoded.error());
    };
  }
  // A file of the coordinator's that is no shard.
  fs::path add_file(const Bytes& bytes) {
    const fs::path file = folder_ / "large";
    AtomicFile out(file);
    out.write(bytes);
    out.commit();
    const transport::BlobId blob = transport::blob_id(bytes);
    files_[blob.name] = {file, 0, blob.bytes};
    shards_.emplace("large", blob);
    return "large";
  }

  const fs::path folder_ = test_folder();
  const fs::path tokens_ = prepare_tiny_corpus(folder_);
  const fs::path here_ = folder_ / "here";
  std::map<std::string, data::TokenSet> whole_;
  RunDescription description_;
  std::map<Sha256, FilePart> files_;
  std::map<fs::path, transport::BlobId> shards_;
  std::atomic<int> asked_ = 0;
  std::atomic<bool> stop_ = false;
};

TEST_F(FetchedShardsTest, HaveTheRowsOfTheWholeData) {
  FetchedShards shards(shards_, ask(), kMuch, nullptr, [](std::string_view) {});
  EXPECT_EQ(differs_from(here_, description_, &shards), "");
  const auto sets = data::open_sets(here_, description_.vocabulary->digest, 0, &shards);
  const data::RowOptions options{.step_rows = 4};
  for (const auto& [name, set] : whole_) {
    const data::Rows whole(set, 16, 7, options);
    const data::Rows fetched(sets.at(name), 16, 7, options);
    ASSERT_EQ(fetched.count(), whole.count());
    for (uint64_t step = 0; step < 2 * whole.count() / 4; ++step) {
      const std::vector<uint64_t> rows{4 * step + 1, 4 * step + 2};
      EXPECT_EQ(fetched.read(rows).tokens, whole.read(rows).tokens);
    }
  }
  uint64_t all = 0;
  for (const auto& [path, blob] : shards_) all += blob.bytes;
  EXPECT_LE(shards.received_bytes(), all) << "nothing is fetched twice";
}

TEST_F(FetchedShardsTest, FetchWhatIsExpectedBeforeItIsRead) {
  Bytes bytes(1 << 20);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const fs::path file = add_file(bytes);
  FetchedShards shards(shards_, ask(), kMuch, nullptr, [](std::string_view) {});
  shards.expect(file, 5000, 3000);
  while (shards.received_bytes() == 0) continue;
  const int asked = asked_;
  Bytes some(3000);
  shards.read(file, 5000, some);
  EXPECT_EQ(asked_, asked) << "it was there";
  EXPECT_TRUE(std::equal(some.begin(), some.end(), bytes.begin() + 5000));
  EXPECT_LE(shards.received_bytes(), 5000u) << "not much more than that";
}

TEST_F(FetchedShardsTest, KeepWhatWasUsedLast) {
  Bytes bytes(3 << 20);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i / 1000);
  const fs::path file = add_file(bytes);
  FetchedShards shards(shards_, ask(), 1 << 20, nullptr, [](std::string_view) {});
  Bytes part(100'000);
  for (uint64_t first = 0; first + part.size() <= bytes.size(); first += part.size()) {
    shards.read(file, first, part);
    ASSERT_TRUE(std::equal(part.begin(), part.end(), bytes.begin() + static_cast<int64_t>(first)));
  }
  const uint64_t received = shards.received_bytes();
  shards.read(file, 3'000'000, part);
  EXPECT_EQ(shards.received_bytes(), received) << "it was kept";
  shards.read(file, 0, part);
  EXPECT_GT(shards.received_bytes(), received) << "it was not";
}

TEST_F(FetchedShardsTest, WaitForACoordinatorThatIsAway) {
  const fs::path file = add_file(Bytes(5000, 9));
  int away = 2;
  std::atomic<int> said = 0;
  FetchedShards shards(
      shards_,
      [&, ask = ask()](std::span<const FileRange> ranges,
                       const std::atomic<bool>& ends) -> Result<Bytes> {
        if (away-- > 0) return fail(FailureKind::kDeadline, "nobody answers");
        return ask(ranges, ends);
      },
      kMuch, nullptr, [&](std::string_view) { ++said; });
  Bytes some(100);
  shards.read(file, 4900, some);
  EXPECT_EQ(some, Bytes(100, 9));
  EXPECT_EQ(said, 1);
}

TEST_F(FetchedShardsTest, SayWhyThereIsNoMore) {
  const fs::path file = add_file(Bytes(5000, 9));
  const auto read_with = [&](FetchedShards::Ask ask) {
    FetchedShards shards(shards_, std::move(ask), kMuch, &stop_, [](std::string_view) {});
    return tests::error_of([&] {
      Bytes some(100);
      shards.read(file, 0, some);
    });
  };
  const auto failing = [](FailureKind kind) {
    return [kind](std::span<const FileRange>, const std::atomic<bool>&) -> Result<Bytes> {
      return fail(kind, "so it is");
    };
  };
  EXPECT_THAT(read_with(failing(FailureKind::kRefused)), HasSubstr("cannot be fetched: so it is"));
  stop_ = true;
  EXPECT_THAT(read_with(failing(FailureKind::kDeadline)), HasSubstr("interrupted"));
  stop_ = false;
  EXPECT_THAT(read_with([](auto, const auto&) -> Result<Bytes> { return Bytes(3); }),
              HasSubstr("another length"));
}

TEST_F(FetchedShardsTest, PartsThatAreNotThereAreRefused) {
  const Sha256 name = files_.begin()->first;
  const auto bytes = static_cast<uint32_t>(files_.begin()->second.bytes);
  const auto why = [&](const FileRange& range) {
    const auto read = read_ranges(files_, std::vector{range});
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(why({name, 0, bytes}), "");
  EXPECT_THAT(why({name, 1, bytes}), HasSubstr("from 1 on"));
  EXPECT_THAT(why({name, ~uint64_t{0}, 2}), HasSubstr("has "));
  EXPECT_THAT(why({Sha256(), 0, 1}), HasSubstr("not a file"));
  files_.begin()->second.bytes += 10;
  EXPECT_THAT(why({name, 0, 1}), HasSubstr("no longer has"));
}

TEST_F(FetchedShardsTest, ARequestNamesSomePartsThatAreNotTooLong) {
  const FileRange one{files_.begin()->first, 0, 100};
  const Bytes coded = encode_parts(kKey, std::vector{one, one});
  ASSERT_TRUE(decode_parts(coded));
  EXPECT_EQ(decode_parts(coded)->key, kKey);
  EXPECT_EQ(decode_parts(coded)->ranges, (std::vector{one, one}));
  for (size_t size = 0; size < coded.size(); ++size) {
    const bool whole = size == coded.size() - 44;
    EXPECT_EQ(decode_parts(std::span(coded).first(size)).has_value(), whole) << size;
  }
  EXPECT_FALSE(decode_parts(encode_parts(kKey, std::vector{FileRange{one.file, 0, 200'000}})));
  EXPECT_FALSE(decode_parts(encode_parts(kKey, std::vector{FileRange{one.file, 0, 0}})));
  const std::vector<FileRange> many(kMostRanges + 1, FileRange{one.file, 0, 1});
  EXPECT_FALSE(decode_parts(encode_parts(kKey, many)));
}

// What is expected of the next steps stays until it is read, whatever else passes through.
TEST_F(FetchedShardsTest, ExpectNoMoreThanHalfOfWhatIsKept) {
  Bytes bytes(8 << 20);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const fs::path file = add_file(bytes);
  FetchedShards shards(shards_, ask(), 1 << 20, nullptr, [](std::string_view) {});
  constexpr uint64_t kStep = 64 << 10;
  Bytes part(kStep);
  for (uint64_t step = 0; step < 40; ++step) {
    for (uint64_t ahead = 0; ahead < 17; ++ahead) {
      shards.expect(file, (step + ahead) * kStep, kStep);
    }
    shards.read(file, step * kStep, part);
    ASSERT_TRUE(
        std::equal(part.begin(), part.end(), bytes.begin() + static_cast<int64_t>(step * kStep)));
  }
  EXPECT_LE(shards.received_bytes(), (40 + 17) * kStep) << "nothing is fetched twice";
}

TEST_F(FetchedShardsTest, AsksForLessWhereAnswersComeTooLate) {
  const fs::path file = add_file(Bytes(1 << 20, 5));
  std::vector<uint64_t> asked;
  FetchedShards shards(
      shards_,
      [&, ask = ask()](std::span<const FileRange> ranges,
                       const std::atomic<bool>& ends) -> Result<Bytes> {
        uint64_t all = 0;
        for (const FileRange& one : ranges) all += one.bytes;
        asked.push_back(all);
        if (all > 40'000) return fail(FailureKind::kDeadline, "the line is too thin");
        return ask(ranges, ends);
      },
      kMuch, nullptr, [](std::string_view) {});
  Bytes some(200'000);
  shards.read(file, 0, some);
  EXPECT_EQ(some, Bytes(200'000, 5));
  EXPECT_EQ(asked[0], kMostAtOnce);
  EXPECT_EQ(asked[1], kMostAtOnce / 2);
  EXPECT_EQ(asked[2], kMostAtOnce / 4);
}

TEST_F(FetchedShardsTest, AShardWhoseHeaderCountsMoreThanItsFileHoldsIsRefused) {
  auto blob = std::ranges::find_if(
      shards_, [&](const auto& one) { return one.second.bytes > data::kShardHeaderBytes; });
  blob->second.bytes -= 100;
  FetchedShards shards(shards_, ask(), kMuch, nullptr, [](std::string_view) {});
  EXPECT_THAT(tests::error_of([&] { data::ShardReader(blob->first, &shards); }),
              HasSubstr("is truncated"));
}

}  // namespace
}  // namespace thinwire::hosts
