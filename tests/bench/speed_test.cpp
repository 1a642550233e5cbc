#include "thinwire/bench/speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "thinwire/method/registry.h"

namespace thinwire::bench {
namespace {

TEST(Speed, TellsHowManyStepsAreDone) {
  const std::vector<std::string> overrides = {"model.vocab=300", "model.hidden=16",
                                              "model.layers=1",  "model.heads=1",
                                              "train.batch=2",   "train.sequence=8"};
  std::vector<int64_t> told;
  const auto progress = [&](int64_t done, int64_t all) {
    EXPECT_EQ(all, 3);
    told.push_back(done);
  };
  bench::measure_speed(method::load_recipe("", overrides),
                       {.steps = 2, .warmup = 1, .tokens = {}, .progress = progress});
  EXPECT_THAT(told, testing::ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace thinwire::bench
