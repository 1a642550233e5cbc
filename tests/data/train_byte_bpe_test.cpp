
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/data/scratch.h"
#include "thinwire/base/json.h"
#include "thinwire/data/prepare.h"
#include "thinwire/data/shard.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::data {
namespace {

using testing::HasSubstr;

std::string trained(const std::vector<std::string>& texts, int64_t size) {
  size_t at = 0;
  return train_byte_bpe([&] { return at < texts.size() ? &texts[at++] : nullptr; }, size);
}

// "ab" occurs 4 times, "abc" then 3 times and "xy" twice.
TEST(TrainByteBpe, MergesTheMostFrequentPairsFirst) {
  const auto json = parse_json<nlohmann::json>(trained({"abc abc", "abc", "ab", "xy xy"}, 260));
  const auto merges = json.at("model").at("merges");
  ASSERT_EQ(merges.size(), 3u);
  EXPECT_EQ(merges[0], nlohmann::json::array({"a", "b"}));
  EXPECT_EQ(merges[1], nlohmann::json::array({"ab", "c"}));
  EXPECT_EQ(merges[2], nlohmann::json::array({"x", "y"}));
  EXPECT_EQ(json.at("model").at("vocab").at("<|endoftext|>"), 0);
  EXPECT_EQ(json.at("model").at("vocab").at("ab"), 257);
}

TEST(TrainByteBpe, SizesThatTheTextDoesNotGiveAreErrors) {
  EXPECT_THAT(error_of([] { trained({"abc abc"}, 256); }), HasSubstr("less than the 257 tokens"));
  EXPECT_THAT(error_of([] {
                trained({"abc", "abc"}, 300);
              }),
              HasSubstr("data.vocabulary_size = 300 is more than the number of pieces in this "
                        "text: set at most 259"));
}

TEST(TrainByteBpe, APreparedFolderSpellsAllText) {
  const fs::path folder = scratch_folder();
  write_file(folder / "text.txt", "abc abc\n\nabc ab\n\nxy xy\n");
  config::DataSection data;
  data.dir = (folder / "tokens").string();
  data.text = {(folder / "text.txt").string()};
  data.vocabulary = config::VocabularyKind::kByteBpe;
  data.vocabulary_size = 259;
  data.validation_fraction = 0;
  prepare(data, {.threads = 1});
  const auto vocabulary = Vocabulary::load(data.dir);
  EXPECT_EQ(vocabulary->size(), 259);
  EXPECT_EQ(vocabulary->eos(), 0);
  const std::string odd = " abc\tмир\n世 😀 0123";
  EXPECT_EQ(vocabulary->decode(vocabulary->encode(odd)), odd);
  EXPECT_EQ(vocabulary->encode("abc"), (std::vector<int32_t>{258}));
}

}  // namespace
}  // namespace thinwire::data
