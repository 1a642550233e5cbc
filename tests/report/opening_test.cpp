#include "thinwire/report/opening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/method/registry.h"

namespace thinwire::report {
namespace {

using testing::ElementsAre;

std::vector<std::string> opening(std::vector<std::string> fields,
                                 const TrainingRows& training = {40'000, 5'120'000}) {
  fields.insert(fields.begin(),
                {"run.name=mine", "data.dir=data/mine", "model.vocab=4096", "sync.method=distro"});
  return opening_lines(method::load_recipe({}, fields), training, 1);
}

TEST(Opening, SaysWhatARunWillDo) {
  EXPECT_THAT(
      opening({"train.workers=4", "train.steps=2000", "train.batch=64"}),
      ElementsAre(
          "mine: distro, 4 workers x 1 thread, fp32 on cpu, 1.90 M parameters",
          "  tokens: 8.19 k a step, 16.4 M in 2000 steps, 3.2 epochs of 5.12 M",
          testing::MatchesRegex("  memory: about .* needed, .* free; on disk .* a checkpoint"),
          "  checkpoints: every 5 min, at the end; 2 kept", "  data: data/mine, run: runs/mine"));
}

TEST(Opening, CountsEpochsInRowsAndTokensWithoutPadding) {
  // 100 rows of 20 tokens and padding up to 128.
  const auto lines =
      opening({"train.steps=30", "train.batch=10", "train.sequence=128"}, {100, 2000});
  EXPECT_EQ(lines[1],
            "  tokens without padding: 200 a step, 6.00 k in 30 steps, 3 epochs of 2.00 k");
}

TEST(Opening, FitsA80ColumnTerminal) {
  const auto lines = opening({"train.workers=64", "train.batch=512", "train.steps=100000",
                              "checkpoint.every=1000", "checkpoint.best=true", "eval.every=100"});
  EXPECT_EQ(lines[3],
            "  checkpoints: every 1000 steps, 5 min, evaluation, at the end; 2 and best kept");
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
}

}  // namespace
}  // namespace thinwire::report
