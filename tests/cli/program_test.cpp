// The program as a whole: what it refuses, and with which messages.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/cli/program_run.h"
#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::cli {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
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
    EXPECT_THAT(run.err, AllOf(HasSubstr("B of memory ("), HasSubstr("B are available"),
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
  EXPECT_THAT(run.out,
              AllOf(Not(ContainsRegex("(bytes|seconds|weights|activations)[a-z_\"]*: null")),
                    Not(HasSubstr("inf"))));
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

std::string error(const std::vector<std::string>& arguments) {
  const ProgramRun run = run_thinwire(arguments);
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  return run.err;
}

TEST(Program, NamesWhatWasMeant) {
  EXPECT_EQ(error({"trian", "x.toml"}),
            "thinwire: there is no command trian; did you mean train?\n");
  EXPECT_EQ(error({"bench", "sped"}), "thinwire: bench has no command sped; did you mean speed?\n");
  EXPECT_EQ(error({"train", "--restrat"}),
            "thinwire: train has no option --restrat; did you mean --restart?\n");
  EXPECT_EQ(error({"--vresion"}),
            "thinwire: there is no option --vresion; did you mean --version?\n");
  EXPECT_THAT(error({"help"}), HasSubstr("there is no command help; `thinwire --help` lists"));
  const std::string steps = "; a recipe's field is given without dashes: train.steps=50\n";
  EXPECT_EQ(error({"train", "/dev/null", "--steps", "50"}),
            "thinwire: train has no option --steps" + steps);
  EXPECT_EQ(error({"recipe", "--train.steps=50"}),
            "thinwire: recipe has no option --train.steps" + steps);
  EXPECT_THAT(error({"recipe", "--seed"}), HasSubstr(".seed=VALUE"));
  EXPECT_THAT(error({"fly"}), HasSubstr("there is no command fly; the commands are prepare"));
}

TEST(Program, SaysWhatIsMissing) {
  EXPECT_EQ(error({"train"}),
            "thinwire: RECIPE is missing; usage: thinwire train RECIPE [OVERRIDES...]\n");
  EXPECT_EQ(error({"import", "."}),
            "thinwire: OUT_DIR is missing; usage: thinwire import HF_DIR OUT_DIR\n");
  EXPECT_THAT(error({"join", "example.org"}),
              HasSubstr("a token is needed, which `thinwire serve` or `thinwire keys` printed"));
  EXPECT_EQ(error({"train", "data.text=tales.txt"}),
            "thinwire: RECIPE: 'data.text=tales.txt' is a field; a recipe file comes before the "
            "fields\n");
  EXPECT_EQ(error({"bench"}),
            "thinwire: bench needs a command; the commands are codec, machine, speed\n");
  EXPECT_THAT(error({}), HasSubstr("thinwire: a command is missing; the commands are prepare"));
  EXPECT_EQ(error({"plan", "fit", "x", "--save"}), "thinwire: --save needs a value\n");
}

TEST(Program, SaysWhatIsWrongWithAValue) {
  EXPECT_EQ(error({"train", "no.toml"}), "thinwire: RECIPE: there is no file 'no.toml'\n");
  EXPECT_EQ(error({"train", "."}), "thinwire: RECIPE: '.' is a folder, not a file\n");
  EXPECT_EQ(error({"export", "no", "out"}), "thinwire: MODEL: there is no folder 'no'\n");
  EXPECT_EQ(error({"export", "/dev/null", "out"}),
            "thinwire: MODEL: '/dev/null' is a file, not a folder\n");
  EXPECT_EQ(error({"export", ".", "out", "--dtype", "fp8"}),
            "thinwire: --dtype: must be one of fp32, bf16; got 'fp8'\n");
  EXPECT_EQ(error({"completion", "tcsh"}),
            "thinwire: SHELL: must be one of bash, zsh, fish; got 'tcsh'\n");
  EXPECT_EQ(error({"bench", "codec", "--k", "x"}),
            "thinwire: --k: must be a whole number >= 1 and <= 65536; got 'x'\n");
  EXPECT_EQ(error({"inspect", ""}), "thinwire: PATHS: the name must not be empty\n");
}

TEST(Program, ALinkToNothingIsNamedAsOne) {
  const fs::path link = fs::path(testing::TempDir()) / "link_to_nothing";
  fs::remove(link);
  fs::create_symlink("gone", link);
  const std::string told = link.string() + ": it is a link to gone, which does not exist\n";
  EXPECT_THAT(error({"train", link}), HasSubstr("RECIPE: cannot read " + told));
  EXPECT_THAT(error({"generate", link}), HasSubstr("MODEL: cannot read " + told));
  EXPECT_THAT(run_thinwire({"recipe", link}).err, HasSubstr(told));
}

// As a shell splits the advice `data.document = "line"`.
TEST(Program, AFieldMayBeSeveralWordsOfTheShell) {
  const auto document = [](const std::vector<std::string>& words) {
    std::vector<std::string> all = {"recipe"};
    all.insert(all.end(), words.begin(), words.end());
    const ProgramRun run = run_thinwire(all);
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("\nsteps = 7\n"));
    return run.out.find("document = \"line\"") != std::string::npos;
  };
  EXPECT_TRUE(document({"data.document", "=", "line", "train.steps=7"}));
  EXPECT_TRUE(document({"data.document=", "line", "train.steps", "=7"}));
  EXPECT_TRUE(document({"train.steps=7", "data.document", "=", "line"}));
  EXPECT_FALSE(document({"run.dir=", "train.steps=7"}));
  EXPECT_THAT(error({"recipe", "train.steps=7", "more"}), HasSubstr("override 'more'"));
}

TEST(Program, AsksWhatASmallRateMeans) {
  EXPECT_EQ(error({"plan", "--up", "10"}),
            "thinwire: --up 10: is it 10 Mbit/s or 10 bit/s? Write the unit, too: 10Mbit/s\n");
  EXPECT_EQ(error({"plan", "--up", "10Mb"}),
            "thinwire: --up 10Mb: does it count bytes (10MB/s) or bits (10Mbit/s)?\n");
}

TEST(Program, AsksWhatABareMemoryOrDelayMeans) {
  EXPECT_EQ(error({"plan", "--memory", "16"}),
            "thinwire: --memory 16: is it 16 GB or 16 B? Write the unit, too: 16GB\n");
  EXPECT_EQ(error({"plan", "memory", "--limit", "16"}),
            "thinwire: --limit 16: is it 16 GB or 16 B? Write the unit, too: 16GB\n");
  EXPECT_EQ(error({"plan", "--delay", "20"}),
            "thinwire: --delay 20: is it 20 ms or 20 s? Write the unit, too: 20ms\n");
}

TEST(Program, TakesTimesOfJoinWithTheirUnit) {
  for (const char* option : {"--wait", "--row-seconds"}) {
    EXPECT_EQ(error({"join", "here", "--token", "x", option, "10mn"}),
              fmt::format("thinwire: {}: '10mn' is not a time; times are written like 20ms, 1.5s, "
                          "10min, 2h or 1d; it must be >= 0 and <= 1000000\n",
                          option));
    EXPECT_THAT(error({"join", "here", "--token", "x", option, "10min"}), Not(HasSubstr(option)));
  }
}

TEST(Program, NoExistingFileIsReplaced) {
  const fs::path file = fs::path(testing::TempDir()) / "kept_file.toml";
  write_file(file, "# mine\n");
  for (const std::vector<std::string>& words : {std::vector<std::string>{"plan", "--save"},
                                                {"plan", "fit", "x", "--save"},
                                                {"eval", ".", "perplexity", "--items"}}) {
    std::vector<std::string> all = words;
    all.push_back(file.string());
    EXPECT_THAT(error(all), HasSubstr(fmt::format("{}: '{}' exists already and is kept; give "
                                                  "another name",
                                                  words.back(), file.string())));
  }
  EXPECT_EQ(read_text_file(file), "# mine\n");
}

TEST(Program, APlaceForAPlotIsCheckedBeforeTheWork) {
  EXPECT_EQ(error({"compare", "no", "--plot", "/dev/null/loss.png"}),
            "thinwire: --plot: '/dev/null/loss.png' cannot be written: /dev/null is no folder\n");
  const fs::path folder = test_folder();
  fs::create_directory(folder / "loss.png");
  EXPECT_EQ(error({"compare", "no", "--plot", (folder / "loss.png").string()}),
            fmt::format("thinwire: --plot: '{}' is a folder, not a file\n",
                        (folder / "loss.png").string()));
}

TEST(Program, NamesTheFileThatWasMeant) {
  const fs::path folder = test_folder();
  write_file(folder / "tiny.toml", "");
  EXPECT_EQ(error({"train", (folder / "tinny.toml").string()}),
            fmt::format("thinwire: RECIPE: there is no file '{}'; did you mean {}?\n",
                        (folder / "tinny.toml").string(), (folder / "tiny.toml").string()));
}

TEST(Program, SaysWhichWordsDoNotGoTogether) {
  EXPECT_EQ(error({"generate", ".", "--temperature", "1", "--greedy"}),
            "thinwire: --temperature and --greedy cannot be given together\n");
  EXPECT_EQ(error({"compare", "x", "--csv", "--json"}),
            "thinwire: --json and --csv cannot be given together\n");
  EXPECT_EQ(error({"compare", "x", "--over", "steps"}), "thinwire: --over needs --plot\n");
  EXPECT_EQ(error({"plan", "fit", "x", "--save", "a", "--save", "b"}),
            "thinwire: --save can be given only once\n");
  EXPECT_EQ(error({"export", ".", "out", "more"}),
            "thinwire: export takes no further argument 'more'\n");
  EXPECT_EQ(error({"compare", "x", "--json=maybe"}), "thinwire: --json takes no value\n");
}

}  // namespace
}  // namespace thinwire::cli
