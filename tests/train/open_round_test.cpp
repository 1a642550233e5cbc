#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_run.h"
#include "thinwire/base/error.h"
#include "thinwire/train/round_source.h"

namespace thinwire::train {
namespace {

config::Recipe recipe_with(std::vector<std::string> overrides) {
  std::vector<std::string> all = {"sync.method=diloco", "diloco.sync_every=4", "train.workers=3",
                                  "train.batch=9"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return tiny_recipe("nowhere", all);
}

std::vector<uint64_t> counts(const Round& round) {
  std::vector<uint64_t> rows;
  for (const RoundMember& member : round.roster) rows.push_back(member.rows.count);
  return rows;
}

using Counts = std::vector<uint64_t>;

TEST(OpenRound, DividesTheRowsOfAStepWithoutGaps) {
  const Round round = open_round(recipe_with({}), 0, 3, 5, std::vector<float>{1, 1, 7});
  EXPECT_EQ(counts(round), (Counts{1, 1, 7}));
  EXPECT_EQ(round.roster[0].rows.first, 45u);
  EXPECT_EQ(round.roster[1].rows.first, 46u);
  EXPECT_EQ(round.roster[2].rows.first, 47u);
  EXPECT_FLOAT_EQ(round.roster[2].weight, 7.0f / 9);
}

TEST(OpenRound, LeavesOutWhoIsAbsent) {
  const config::Recipe recipe =
      recipe_with({"sync.absent=[\"1=2-2\", \"2=1-1\", \"1=3-3\", \"1=5-9\"]"});
  const auto at = [&](int64_t step) { return open_round(recipe, 0, 3, step); };
  EXPECT_EQ(counts(at(3)), (Counts{4, 5, 0}));
  EXPECT_EQ(counts(at(4)), (Counts{4, 0, 5}));
  EXPECT_EQ(counts(at(12)), (Counts{3, 3, 3}));
  EXPECT_TRUE(at(4).roster[1].inactive());
  EXPECT_EQ(at(3).roster[1].since, 0u);
  EXPECT_EQ(at(7).roster[1].since, 4u);
  EXPECT_EQ(at(11).roster[1].since, 4u) << "absences that follow each other are one";
  EXPECT_EQ(at(13).roster[1].since, 12u);
  EXPECT_EQ(at(100).roster[1].since, 36u);
  EXPECT_EQ(at(4).roster[2].since, 4u);
  EXPECT_EQ(at(4).roster[0].since, 0u);
}

TEST(OpenRound, MembersAreLookedUpById) {
  Round round;
  round.roster = {{4, {0, 2}, 0.5f, 0}, {9, {2, 0}, 0, 8}, {30, {2, 2}, 0.5f, 0}};
  EXPECT_EQ(round.member(30).rows.first, 2u);
  EXPECT_EQ(round.member(9).since, 8u);
  EXPECT_FALSE(round.has(2));
  EXPECT_TRUE(round.member(2).inactive()) << "who is not in the roster follows";
  EXPECT_EQ(round.active(), (std::vector<int>{4, 30}));
  EXPECT_EQ(share_of(round, 30, 9).first, 6u);
  EXPECT_EQ(share_of(round, 30, 9).count, 3u);
  EXPECT_EQ(share_of(round, 2, 9).count, 0u);
}

std::string complaint(std::vector<std::string> overrides) {
  try {
    recipe_with(std::move(overrides));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(OpenRound, RecipesThatCannotBeSayWhy) {
  using testing::HasSubstr;
  EXPECT_THAT(complaint({"sync.absent=[\"1=3\"]"}), HasSubstr("like \"2=3-5\", got \"1=3\""));
  EXPECT_THAT(complaint({"sync.absent=[\"3=1-2\"]"}), HasSubstr("names member 3"));
  EXPECT_THAT(complaint({"sync.absent=[\"1=3-2\"]"}), HasSubstr("1 <= FIRST <= LAST"));
  EXPECT_THAT(complaint({"sync.absent=[\"0=1-3\", \"1=2-2\", \"2=2-4\"]"}),
              HasSubstr("no worker in round 2"));
  EXPECT_THAT(complaint({"sync.absent=[\"1=2-2\"]", "sync.within=allreduce", "sync.clusters=2"}),
              HasSubstr("within = \"none\""));
  for (const std::string method : {"allreduce", "distro"}) {
    EXPECT_EQ(complaint({"sync.method=" + method, "sync.shares=speed"}), "");
    EXPECT_THAT(complaint({"sync.method=" + method, "sync.absent=[\"1=2-2\"]"}),
                HasSubstr("no rounds of independent steps to be absent from"));
  }
}

}  // namespace
}  // namespace thinwire::train
