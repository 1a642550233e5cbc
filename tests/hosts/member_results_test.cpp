#include <gtest/gtest.h>

#include "thinwire/hosts/run_end.h"
#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

events::Summary reported(double loss, double accuracy) {
  events::Summary summary;
  summary.train_loss = loss;
  summary.val_loss = {{"dev", loss}};
  summary.scores = {{"dev.acc", accuracy}, {"dev.f1", accuracy}};
  summary.digest = "00000000000000ff";
  return summary;
}

TEST(MemberResults, LossesAndAccuraciesAreMeansAndOtherScoresAreLeftOut) {
  const std::vector<std::string> fields = {"model.vocab=300"};
  const config::Recipe recipe = method::load_recipe({}, fields);
  MemberResults results(recipe);
  results.add({1}, reported(1, 0.5));
  results.add({2}, reported(2, 0.75));
  const events::Summary summary = results.summarise(255, 12);
  EXPECT_EQ(results.digest(), 255u);
  EXPECT_DOUBLE_EQ(summary.train_loss, 1.5);
  EXPECT_DOUBLE_EQ(summary.val_loss.at("dev"), 1.5);
  EXPECT_EQ(summary.scores, (std::map<std::string, double>{{"dev.acc", 0.625}}));
}

}  // namespace
}  // namespace thinwire::hosts
