#include <gtest/gtest.h>

#include "thinwire/hosts/run_end.h"

namespace thinwire::hosts {
namespace {

using membership::Loss;

// A record that opens a round with these members.
membership::Record opening(const std::vector<int>& members) {
  membership::Opening opening;
  for (const int member : members) opening.roster.push_back({member, {}, 0});
  membership::Record record;
  record.openings = {opening};
  return record;
}

TEST(FinalLosses, AreMeansOverTheRowsAndItemsOfAll) {
  FinalLosses losses({"words.acc", "words.perplexity"});
  losses.record(opening({0, 1}));
  events::Summary summary;
  summary.val_loss = {{"validation", 9}, {"other", 9}};
  summary.scores = {{"validation.acc", 0.5}};
  for (const uint64_t step : {10u, 20u}) {
    losses.add(Loss{0, step, "validation", 200, 100});
    losses.add(Loss{1, step, "validation", 1200, 300});
    losses.add(Loss{0, step, "words.acc", 3, 4});
    losses.add(Loss{1, step, "words.acc", 0, 2});
  }
  losses.add(Loss{0, 10, "other", 100, 100});
  losses.add(Loss{0, 10, "validation", 7, 7});
  losses.fill(20, summary);
  EXPECT_EQ(summary.val_loss, (std::map<std::string, double>{{"validation", 3.5}, {"other", 9}}))
      << "of an earlier evaluation only";
  EXPECT_EQ(summary.scores,
            (std::map<std::string, double>{{"validation.acc", 0.5}, {"words.acc", 0.5}}));
}

TEST(FinalLosses, OfEvaluationsOfWhichAMemberHasNotReportedAreThoseOfTheSummaries) {
  FinalLosses losses({"words.acc"});
  losses.record(opening({0, 1, 2}));
  losses.record(opening({0, 1}));
  const auto filled = [&] {
    events::Summary summary;
    summary.val_loss = {{"validation", 9}};
    losses.fill(20, summary);
    EXPECT_TRUE(summary.scores.empty());
    return summary.val_loss.at("validation");
  };
  losses.add(Loss{0, 20, "validation", 200, 100});
  losses.add(Loss{0, 20, "words.acc", 200, 100});
  EXPECT_EQ(filled(), 9);
  losses.add(Loss{1, 20, "validation", -200, 100});
  losses.add(Loss{2, 20, "validation", 200, 100});
  EXPECT_EQ(filled(), 9) << "of a member that took no part, and an impossible one";
  losses.add(Loss{1, 20, "validation", 0, 0});
  EXPECT_EQ(filled(), 2) << "the other has no rows";
}

TEST(FinalLosses, AreNotHeldUpByWhatAnotherMemberSays) {
  FinalLosses losses({});
  losses.record(opening({0}));
  for (int i = 0; i < 2000; ++i) losses.add(Loss{7, 1, std::to_string(i), 1, 1});
  losses.add(Loss{7, 1000, "validation", 1, 1});
  losses.add(Loss{0, 20, "validation", 200, 100});
  events::Summary summary;
  summary.val_loss = {{"validation", 9}};
  losses.fill(20, summary);
  EXPECT_EQ(summary.val_loss.at("validation"), 2);
}

}  // namespace
}  // namespace thinwire::hosts
