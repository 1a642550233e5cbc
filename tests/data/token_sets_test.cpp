#include <memory>
#include <string>

#include "tests/data/scratch.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Text prepared as bytes, in shards of about a thousand tokens.
class TokenSets : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = scratch_folder();
    prepared_ = prepare_text("tokens", paragraphs(100));
    vocabulary_ = Vocabulary::load(prepared_)->digest();
  }

  fs::path prepare_text(const std::string& name, const std::string& text) const {
    write_file(folder_ / (name + ".txt"), text);
    config::DataSection data;
    data.dir = folder_ / name;
    data.text = {(folder_ / (name + ".txt")).string()};
    data.vocabulary = config::VocabularyKind::kByte;
    data.validation_fraction = 0.1;
    data.validation_block = 4;
    data.shard_tokens = 1000;
    prepare(data, {.threads = 1});
    return data.dir;
  }
  uint64_t digest(const fs::path& folder) const {
    return open_sets(folder, vocabulary_).at("train").digest();
  }
  std::string refusal(uint64_t hashed_at_once = kHashedAtOnce) const {
    return error_of([&] { open_sets(prepared_, vocabulary_, hashed_at_once); });
  }
  fs::path shard(const char* name) const { return prepared_ / "train" / name; }
  void flip_last_byte(const fs::path& file) const {
    std::string content = read_text_file(file);
    content.back() ^= 1;
    write_file(file, content);
  }

  fs::path folder_;
  fs::path prepared_;
  uint64_t vocabulary_ = 0;
};

TEST_F(TokenSets, DigestsTellTextsApartAndFollowAMovedFolder) {
  const uint64_t here = digest(prepared_);
  fs::rename(prepared_, folder_ / "moved");
  EXPECT_EQ(digest(folder_ / "moved"), here);
  EXPECT_EQ(digest(prepare_text("again", paragraphs(100))), here);
  EXPECT_NE(digest(prepare_text("other", paragraphs(101))), here);
}

TEST_F(TokenSets, AShardThatNoRecordNamesIsRefused) {
  const fs::path stray = prepared_ / "validation" / "validation" / "00007.tws";
  fs::copy_file(shard("00000.tws"), stray);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(stray.string()), HasSubstr("prepare.json lists")));
  fs::remove(stray);
  const auto set = open_sets(prepared_, vocabulary_);
  const fs::path next = shard(shard_name(set.at("train").shards().size()).c_str());
  fs::copy_file(shard("00000.tws"), next);
  EXPECT_THAT(refusal(), HasSubstr(next.string() + " is not one of the shards"));
}

TEST_F(TokenSets, AShardOfOtherTextIsRefused) {
  const fs::path other = prepare_text("other", paragraphs(100) + "one more.\n\n");
  const auto count = open_sets(prepared_, vocabulary_).at("train").shards().size();
  const std::string last = shard_name(count - 1);
  fs::copy_file(other / "train" / last, shard(last.c_str()), fs::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(), HasSubstr("prepare --force"));
}

TEST_F(TokenSets, AShardThatTookAnothersPlaceIsRefused) {
  const fs::path kept = folder_ / "kept";
  fs::rename(shard("00000.tws"), kept);
  fs::rename(shard("00001.tws"), shard("00000.tws"));
  fs::rename(kept, shard("00001.tws"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("00000.tws is not the shard that was prepared"),
                               HasSubstr("checksum")));
}

TEST_F(TokenSets, AMissingLastShardIsRefused) {
  const auto count = open_sets(prepared_, vocabulary_).at("train").shards().size();
  fs::remove(shard(shard_name(count - 1).c_str()));
  EXPECT_THAT(refusal(), HasSubstr("is missing, although"));
}

TEST_F(TokenSets, TokensAreHashedWhereThatTakesNoTime) {
  flip_last_byte(shard("00000.tws"));
  EXPECT_THAT(refusal(), HasSubstr("checksum"));
  EXPECT_NO_THROW(open_sets(prepared_, vocabulary_, /*hashed_at_once=*/1000));
}

TEST_F(TokenSets, ARecordWithoutChecksumsStillServes) {
  const fs::path record = prepared_ / "prepare.json";
  const uint64_t here = digest(prepared_);
  std::string text = read_text_file(record);
  for (size_t at = text.find("\"shard_hashes\""); at != std::string::npos;
       at = text.find("\"shard_hashes\"")) {
    const size_t end = text.find("],", at);
    text.erase(at, end + 2 - at);
  }
  write_file(record, text);
  EXPECT_EQ(digest(prepared_), here);
}

}  // namespace
}  // namespace thinwire::data
