// The program as a whole: what it refuses, and how it says so.
#include <gmock/gmock.h>

#include "tests/cli/program_run.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Memory : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(testing::TempDir()) / "thinwire" / "cli_memory";
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    prepare_tiny_corpus(folder_);
    const config::Recipe recipe = tiny_recipe(folder_, {"train.steps=1", "schedule.warmup=0"});
    write_file(folder_ / "recipe.toml", config::print_recipe(recipe));
    launch::train(recipe, {});
  }

  static std::string path(const char* name) { return (folder_ / name).string(); }

  static void expect_refused(const std::vector<std::string>& arguments, const char* advice) {
    const ProgramRun run = run_thinwire(arguments);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_EQ(run.out, "");
    EXPECT_THAT(run.err, AllOf(HasSubstr("B of memory ("), HasSubstr("B are there"),
                               HasSubstr(advice), Not(HasSubstr("bad_alloc"))));
  }

  static inline fs::path folder_;
};

TEST_F(Memory, AModelTooWideToTrainIsRefused) {
  expect_refused({"train", path("recipe.toml"), "run.dir=" + path("wide"), "model.hidden=1048576"},
                 "lower model.hidden = 1048576");
  EXPECT_FALSE(fs::exists(folder_ / "wide"));
}

TEST_F(Memory, ABatchTooLargeToTrainIsRefused) {
  expect_refused({"train", path("recipe.toml"), "run.dir=" + path("many"), "train.batch=1e8"},
                 "train.batch = 100000000");
}

TEST_F(Memory, AStepTooLargeToMeasureIsRefused) {
  expect_refused({"bench", "speed", path("recipe.toml"), "model.vocab=258", "train.batch=1e8"},
                 "train.batch = 100000000");
  expect_refused({"bench", "speed", path("recipe.toml"), "model.vocab=16777216",
                  "model.hidden=1048576", "model.layers=10000"},
                 "lower ");
}

TEST_F(Memory, AContextTooLongToGenerateIsRefused) {
  expect_refused({"generate", path("run"), "--context", "4294967296"},
                 "lower --context, which is 4294967296");
}

TEST_F(Memory, IsPredictedForAnyRecipe) {
  const ProgramRun run =
      run_thinwire({"plan", "model.hidden=1048576", "model.layers=500", "model.vocab=16777216",
                    "train.batch=1e8", "--flops", "1T", "--json"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(Not(HasSubstr("null,")), Not(HasSubstr("inf"))));
}

TEST(Program, TellsItsVersion) {
  const ProgramRun run = run_thinwire({"--version"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, testing::ContainsRegex(
                           "^thinwire [0-9.]+ \\(commit ([0-9a-f]{12}\\+?|unknown)\\)\n"));
  for (const char* fact : {"compiler  ", "LibTorch  ", "CUDA  ", "MPI  ", "instruction set  "}) {
    EXPECT_THAT(run.out, testing::ContainsRegex(std::string("\n") + fact + " *[A-Za-z0-9]"));
  }
}

TEST(Program, NamesWhatWasMeant) {
  const auto error = [](const std::vector<std::string>& arguments) {
    const ProgramRun run = run_thinwire(arguments);
    EXPECT_EQ(run.status, 2);
    return run.err;
  };
  EXPECT_EQ(error({"trian", "x.toml"}),
            "thinwire: there is no command trian; did you mean train?\n");
  EXPECT_EQ(error({"bench", "sped"}), "thinwire: bench has no command sped; did you mean speed?\n");
  EXPECT_EQ(error({"train", "--restrat"}),
            "thinwire: train has no option --restrat; did you mean --restart?\n");
  EXPECT_EQ(error({"--vresion"}),
            "thinwire: there is no option --vresion; did you mean --version?\n");
  EXPECT_THAT(error({"fly"}), HasSubstr("there is no command fly; the commands are prepare"));
}

}  // namespace
}  // namespace thinwire::cli
