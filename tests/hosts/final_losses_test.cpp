#include "thinwire/hosts/final_losses.h"

#include <gtest/gtest.h>

namespace thinwire::hosts {
namespace {

using membership::Loss;

TEST(FinalLosses, AreMeansOverTheRowsAndItemsOfAll) {
  FinalLosses losses({"words.acc", "words.perplexity"});
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

}  // namespace
}  // namespace thinwire::hosts
