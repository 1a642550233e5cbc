
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/cli/command.h"
#include "thinwire/report/sweep_results.h"

namespace thinwire::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

std::string error_of(std::string_view toml) {
  try {
    parse_grid(toml, "grid.toml");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SweepGrid, MakesEveryCombination) {
  const Grid grid = parse_grid(R"(
      recipe = "a.toml"
      seeds = [1, 2]
      [grid]
      "optim.lr" = [1e-3, 3e-3]
      sync.method = ["allreduce", "distro"]
  )",
                               "grid.toml");
  EXPECT_EQ(grid.recipe, "a.toml");
  EXPECT_THAT(grid.seeds, ElementsAre("1", "2"));
  EXPECT_THAT(grid.swept, ElementsAre("optim.lr", "sync.method"));
  ASSERT_EQ(grid.points.size(), 4U);
  EXPECT_THAT(grid.points[0],
              ElementsAre(Pair("optim.lr", "0.001"), Pair("sync.method", "'allreduce'")));
  EXPECT_THAT(grid.points[3],
              ElementsAre(Pair("optim.lr", "0.003"), Pair("sync.method", "'distro'")));
}

TEST(SweepGrid, CrossesPointsWithTheGrid) {
  const Grid grid = parse_grid(R"(
      recipe = "a.toml"
      [fixed]
      train.steps = 20
      [grid]
      "optim.beta2" = [0.9, 0.95]
      [[points]]
      "sync.method" = "distro"
      "distro.k" = 8
      [[points]]
      "sync.method" = "allreduce"
  )",
                               "grid.toml");
  EXPECT_THAT(grid.fixed, ElementsAre(Pair("train.steps", "20")));
  EXPECT_THAT(grid.swept, ElementsAre("sync.method", "distro.k", "optim.beta2"));
  ASSERT_EQ(grid.points.size(), 4U);
  EXPECT_EQ(grid.points[1].size(), 3U);
  EXPECT_THAT(grid.points[2],
              ElementsAre(Pair("sync.method", "'allreduce'"), Pair("optim.beta2", "0.9")));
}

TEST(SweepGrid, AGridWithoutValuesIsOneRunASeed) {
  const Grid grid = parse_grid("recipe = \"a.toml\"", "grid.toml");
  EXPECT_THAT(grid.points, ElementsAre(IsEmpty()));
  EXPECT_THAT(grid.seeds, IsEmpty());
}

TEST(SweepGrid, ErrorsNameTheKey) {
  EXPECT_THAT(error_of(""), StartsWith("grid.toml: recipe must be given"));
  EXPECT_EQ(
      error_of("recipe = \"a\"\ngird = 1"),
      "grid.toml: gird is not known; a grid has recipe, seeds, [fixed], [grid] and [[points]]");
  EXPECT_THAT(error_of("[train]\nsteps = 3"),
              StartsWith("grid.toml is a recipe (it has [train]), not a grid, which names one and "
                         "what to vary: recipe = \"grid.toml\" and"));
  EXPECT_EQ(error_of("recipe = \"a\"\nseeds = 3"),
            "grid.toml: seeds must be a list of integers, e.g. [1, 2], got 3");
  EXPECT_EQ(error_of("recipe = \"a\"\nseeds = [1, 1]"), "grid.toml: seeds has 1 twice");
  EXPECT_EQ(error_of("recipe = \"a\"\n[grid]\noptim.lr = 3"),
            "grid.toml: grid.optim.lr must be a list of values, e.g. [1e-3, 3e-3], got 3");
  EXPECT_EQ(error_of("recipe = \"a\"\n[grid]\noptim.lr = [1, 1]"),
            "grid.toml: grid.optim.lr has 1 twice");
  EXPECT_EQ(error_of("recipe = \"a\"\n[grid]\nrun.seed = [1]"),
            "grid.toml: grid.run.seed is set by seeds");
  EXPECT_EQ(error_of("recipe = \"a\"\npoints = 3"),
            "grid.toml: points must be written as [[points]] tables");
  EXPECT_EQ(error_of("recipe = \"a\"\n[grid]\nx.y = [1]\n[[points]]\nx.y = 1"),
            "grid.toml: grid.x.y is in [[points]] too");
  EXPECT_EQ(error_of("recipe = \"a\"\n[grid]\nx.y = [1]\n[fixed]\nx.y = 1"),
            "grid.toml: fixed.x.y is varied by the sweep too");
  EXPECT_EQ(
      error_of("recipe = \"a\"\n[grid]\nx.y = [1]\n[fixed]\nrun.dir = \"z\""),
      "grid.toml: fixed.run.dir is set by the sweep for each run; --out says where the runs go");
  EXPECT_THAT(error_of("recipe = "), StartsWith("grid.toml:1: "));
}

// The consecutive indented lines after `before`.
std::string indented_after(const std::string& text, const std::string& before) {
  std::istringstream in(text.substr(text.find(before)));
  std::string lines;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) lines += line + "\n";
    if (!line.starts_with("  ") && !lines.empty()) break;
  }
  return lines;
}

TEST(SweepGrid, HelpShowsOneThatIsAccepted) {
  CLI::App app;
  cli::add_sweep(app);
  const std::string help = app.get_subcommand("sweep")->help();
  EXPECT_THAT(help, HasSubstr("docs/sweeps.md"));
  const Grid grid = parse_grid(indented_after(help, "A grid file names"), "help");
  EXPECT_EQ(grid.recipe, "recipes/tiny.toml");
  EXPECT_EQ(grid.points.size() * grid.seeds.size(), 4U);
}

TEST(SweepGrid, TheOneOfTheDocumentationIsAccepted) {
  const std::string page = read_text_file(tests::source_file("docs/sweeps.md"));
  const size_t begin = page.find("```toml\n") + 8;
  Grid grid = parse_grid(page.substr(begin, page.find("```\n", begin) - begin), "sweeps.md");
  grid.recipe = tests::source_file(grid.recipe.string());
  EXPECT_EQ(plan_sweep(std::move(grid), "out", "thinwire").runs.size(), 8U);
}

}  // namespace
}  // namespace thinwire::report
