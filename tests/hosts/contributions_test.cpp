#include "thinwire/hosts/contributions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tiny_run.h"

namespace thinwire::hosts {
namespace {

// Members 0 and 1 have 3 and 5 rows in each of 2 steps.
membership::Record opened(uint64_t sequence, uint64_t round) {
  membership::Record record;
  record.sequence = sequence;
  membership::Opening& opening = record.openings.emplace_back();
  opening.round = round;
  opening.steps.resize(2);
  opening.roster = {{0, {0, 3}, 0}, {1, {3, 5}, 0}};
  return record;
}

membership::Record closed(uint64_t sequence, uint64_t round, std::vector<Contribution> listed) {
  membership::Record record;
  record.sequence = sequence;
  record.closing.emplace();
  record.closing->round = round;
  record.closing->commits.resize(2);  // two fragments
  for (Commit& commit : record.closing->commits) commit.contributions = listed;
  return record;
}

membership::Offer offer(int member, uint64_t round, uint32_t fragment, double seconds) {
  membership::Offer offer;
  offer.member = member;
  offer.round = round;
  offer.fragment = fragment;
  offer.spent.seconds = seconds;
  return offer;
}

class ContributionsTest : public testing::Test {
 protected:
  ~ContributionsTest() override { fs::remove_all(file_.parent_path()); }

  const fs::path file_ = test_folder() / "contributions.json";
  Contributions all_{file_};
};

TEST_F(ContributionsTest, AreTheRowsBytesAndTimesOfWhatCounted) {
  all_.record(opened(1, 0));
  for (const uint32_t fragment : {0u, 1u}) {
    all_.offered(offer(0, 0, fragment, 1.5 + fragment));
    all_.offered(offer(1, 0, fragment, 9));
  }
  all_.record(closed(2, 0, {{0, 0, {}, 100, 6}}));
  EXPECT_EQ(all_.all(), (std::map<int, Contributed>{{0, {6, 200, {2.5}}}}));
  all_.record(opened(3, 1));
  all_.offered(offer(0, 1, 0, 1));
  all_.record(closed(4, 1, {{0, 1, {}, 100, 6}, {1, 0, {}, 50, 10}}));
  EXPECT_EQ(all_.all(), (std::map<int, Contributed>{{0, {12, 400, {3.5}}}, {1, {10, 100, {9}}}}))
      << "a late one counts in its own rows, once";
}

TEST_F(ContributionsTest, OfRoundsWithoutOperationsAreTheRows) {
  all_.record(opened(1, 0));
  membership::Record record = closed(2, 0, {});
  record.closing->commits.clear();
  all_.record(record);
  EXPECT_EQ(all_.all(), (std::map<int, Contributed>{{0, {6, 0, {}}}, {1, {10, 0, {}}}}));
}

TEST_F(ContributionsTest, OfRoundsWithoutStepsAreBytesAlone) {
  membership::Record record = opened(1, 0);
  record.openings.back().steps.clear();
  all_.record(record);
  all_.record(closed(2, 0, {{0, 0, {}, 100, 3}}));
  EXPECT_EQ(all_.all(), (std::map<int, Contributed>{{0, {0, 200, {}}}}));
}

TEST(OnSpeeds, SaysHowMuchFasterAMemberIsThatHasComputedForLong) {
  std::map<int, Contributed> all = {
      {0, {100, 0, {100}}}, {1, {100, 0, {400}}}, {2, {100, 0, {1}}}, {3, {0, 0, {}}}};
  EXPECT_THAT(on_speeds(all), testing::HasSubstr("computes 4.0 times as fast as the slowest"));
  all.at(1).spent.seconds = 149;
  EXPECT_EQ(on_speeds(all), "");
  EXPECT_EQ(on_speeds({}), "");
}

TEST_F(ContributionsTest, HaveTheEnergyOfWhatCounted) {
  all_.record(opened(1, 0));
  membership::Offer one = offer(0, 0, 0, 1);
  one.spent = {.seconds = 0, .joules = 7.2e6, .grams = 900};  // with watts alone there is no time
  all_.offered(one);
  all_.offered(offer(1, 0, 0, 9));
  all_.record(closed(2, 0, {{0, 0, {}, 100, 6}}));
  const Contributed all = all_.all().at(0);
  EXPECT_EQ(all.kilowatt_hours(), 2);
  EXPECT_EQ(all.co2_kg(), 0.9);
  EXPECT_EQ(format_energy(all), "2 kWh");
  EXPECT_EQ(format_co2({.spent = {.grams = 12.34}}), "12.3 g");
  EXPECT_EQ(format_co2({}), "");
  EXPECT_FALSE(all_.all().contains(1)) << "it did not count";
}

TEST_F(ContributionsTest, AreThereAgainAfterAStart) {
  all_.record(opened(1, 0));
  membership::Offer spent = offer(0, 0, 0, 2);
  spent.spent.joules = 5;
  all_.offered(spent);
  all_.record(closed(2, 0, {{0, 0, {}, 100, 6}}));
  all_.keep_last();
  Contributions again(file_);
  EXPECT_TRUE(again.all().empty());
  for (int read = 0; read < 2; ++read) {  // the ledger may be read anew
    again.record(opened(1, 0));
    again.record(closed(2, 0, {{0, 0, {}, 100, 6}}));
    EXPECT_EQ(again.all(), all_.all());
  }
  write_file(file_, R"({"seconds": {"0": 2}})");  // an older program's
  EXPECT_EQ(Contributions(file_).all(), Contributions(test_folder() / "none").all());
  write_file(file_, "{}");
  EXPECT_THROW(Contributions{file_}, Error);
}

}  // namespace
}  // namespace thinwire::hosts
