#include "thinwire/config/renamed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/config/recipe_fixture.h"
#include "thinwire/base/error.h"
#include "thinwire/config/check.h"

namespace thinwire::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using testing::UnorderedElementsAre;

// A moved field, one renamed in place, a table, and a value.
constexpr std::array<RenamedKey, 4> kKeys = {{{"optim.flock", "dove.birds", "optim.birds"},
                                              {"optim.birds", "pigeon.birds", "optim.lr"},
                                              {"train.rounds", "train.steps"},
                                              {"dove", "pigeon"}}};
constexpr std::array<RenamedValue, 1> kValues = {{{"schedule.kind", "trapezoid", "wsd"}}};
constexpr Renames kRenames = {kKeys, kValues};

Recipe read(std::string_view toml, const StringList& overrides = {}) {
  return parse_recipe(toml, "x.toml", overrides, pigeon_sections(), {}, kRenames);
}

std::string refused(std::string_view toml, const StringList& overrides = {}) {
  try {
    read(toml, overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

int64_t birds(const Recipe& recipe) { return recipe.section<PigeonOptions>("pigeon").birds; }

TEST(Renamed, KeysOfAFileSetThePresentFieldsAndAreNamed) {
  const Recipe recipe = read("[optim]\nbirds = 5\n[train]\nrounds = 7\n[dove]\nmiles = 3");
  EXPECT_EQ(birds(recipe), 5);
  EXPECT_EQ(recipe.train.steps, 7);
  EXPECT_EQ(recipe.section<PigeonOptions>("pigeon").miles, 3);
  EXPECT_THAT(recipe.notices, UnorderedElementsAre("optim.birds is now called pigeon.birds",
                                                   "train.rounds is now called train.steps",
                                                   "[dove] is now called [pigeon]"));
  EXPECT_THAT(read("[pigeon]\nbirds = 5").notices, IsEmpty());
}

TEST(Renamed, OverridesWinOverTheFileByWhateverName) {
  EXPECT_EQ(birds(read("[optim]\nbirds = 5", {"pigeon.birds=6"})), 6);
  EXPECT_EQ(birds(read("[pigeon]\nbirds = 5", {"optim.birds=6"})), 6);
  const Recipe recipe = read("", {"dove.birds=7", "dove.birds=8"});
  EXPECT_EQ(birds(recipe), 8);
  EXPECT_THAT(recipe.notices, ElementsAre("[dove] is now called [pigeon]"));
}

TEST(Renamed, NamesLeadThroughSeveralRenames) {
  EXPECT_EQ(kRenames.present_key("optim.flock"), "pigeon.birds");
  EXPECT_EQ(kRenames.present_key("dove.miles"), "pigeon.miles");
  EXPECT_EQ(kRenames.present_key("optim.lr"), "optim.lr");
  EXPECT_EQ(kRenames.first_key("pigeon.miles"), "dove.miles");
}

TEST(Renamed, OverridesCanBeGivenPresentNames) {
  EXPECT_EQ(kRenames.present_override("dove.birds=optim.birds=7"), "pigeon.birds=optim.birds=7");
  EXPECT_EQ(kRenames.present_override("optim.lr=7"), "optim.lr=7");
  EXPECT_EQ(kRenames.present_override("dove"), "pigeon");  // no override, and still none
}

TEST(Renamed, ValuesAreNamed) {
  const std::string rest = "[train]\nsteps = 9\n[schedule]\ndecay = 3\n";
  const Recipe recipe = read(rest + "kind = 'trapezoid'");
  EXPECT_EQ(recipe.schedule.kind, ScheduleKind::kWsd);
  EXPECT_THAT(recipe.notices, ElementsAre("schedule.kind = \"trapezoid\" is now called \"wsd\""));
  EXPECT_EQ(read(rest, {"schedule.kind=trapezoid"}).schedule.kind, ScheduleKind::kWsd);
}

TEST(Renamed, BothNamesInOneSourceAreAMistake) {
  EXPECT_EQ(refused("[pigeon]\nbirds = 5\n[optim]\nbirds = 5"),
            "x.toml:2: optim.birds and pigeon.birds are the same; give one of them, preferably "
            "pigeon.birds");
  EXPECT_THAT(refused("", {"train.steps=3", "train.rounds=3"}),
              StartsWith("override 'train.rounds=3': train.steps and train.rounds are the same"));
  EXPECT_THAT(refused("[dove]\nbirds = 5\n[pigeon]\nmiles = 3"),
              HasSubstr("[dove] and [pigeon] are the same"));
}

TEST(Renamed, MethodsOfWhenAreFollowed) {
  const std::string toml = "[sync]\nmethod = 'pigeon'\n[when.dove]\noptim.birds = 9\n";
  const Recipe recipe = read(toml);
  EXPECT_EQ(birds(recipe), 9);
  EXPECT_THAT(recipe.notices, ElementsAre("[dove] is now called [pigeon]",
                                          "optim.birds is now called pigeon.birds"));
  EXPECT_THAT(refused(toml + "[when.pigeon]\noptim.lr = 1"),
              HasSubstr("[dove] and [pigeon] are the same"));
}

TEST(Renamed, RecipesArePrintedByPresentNamesAndReadInSilence) {
  const std::string text = print_recipe(read("[optim]\nbirds = 5"));
  EXPECT_THAT(text, HasSubstr("[pigeon]\nbirds = 5\n"));
  EXPECT_THAT(read(text).notices, IsEmpty());
}

// A run's identity does not change when a field is renamed.
TEST(Renamed, IdentitiesKeepFirstNamesInTheirOrder) {
  const Recipe recipe = read(
      "[pigeon]\nbirds = 5\n[optim]\nlr = 1\nweight_decay = 0\n[train]\n"
      "steps = 5\n[schedule]\nkind = 'wsd'\ndecay = 1");
  StringList lines;
  for (const FieldChange& change : first_named(kRenames, recipe, field_changes(read(""), recipe))) {
    lines.push_back(change.field + " = " + change.now);
  }
  EXPECT_THAT(lines, ElementsAre("train.rounds = 5", "optim.lr = 1.0", "optim.birds = 5",
                                 "optim.weight_decay = 0.0", "schedule.kind = \"trapezoid\"",
                                 "schedule.decay = 1"));
}

TEST(Renamed, OldNamesAreKnownInWholeAndByTheFieldAlone) {
  EXPECT_EQ(kRenames.renamed_from("train.rounds"), "train.rounds");
  EXPECT_EQ(kRenames.renamed_from("rounds"), "train.rounds");
  EXPECT_EQ(kRenames.renamed_from("dove"), "dove");
  EXPECT_EQ(kRenames.renamed_from("steps"), "");
}

// An old name that is in use today would be confused with the current field.
TEST(RecipeRenames, TakeNoNameThatIsInUse) {
  Recipe recipe;
  for (const auto& [table, section] : recipe.sections()) {
    EXPECT_EQ(recipe_renames().present_key(table), table);
    Fields fields;
    section->describe(fields);
    for (const Field& field : fields.all()) {
      const std::string key = key_of(table, field);
      EXPECT_EQ(recipe_renames().present_key(key), key);
    }
  }
}

}  // namespace
}  // namespace thinwire::config
