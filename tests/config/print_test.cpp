#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <string>

#include "tests/config/recipe_fixture.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

using testing::HasSubstr;

// Any text that TOML can hold, including characters that need escaping.
rc::Gen<std::string> any_text() {
  const auto piece = rc::gen::element<std::string>("a", "Z", "\"", "\\", "\n", "\t", "\x01", "\x7f",
                                                   " ", "#", "=", "'", "é", "線");
  return rc::gen::map(rc::gen::container<std::vector<std::string>>(piece), [](const auto& pieces) {
    std::string text;
    for (const std::string& part : pieces) text += part;
    return text;
  });
}

struct Randomize {
  const Field& field;

  void operator()(int64_t* value) const {
    const double most = std::min(field.max, 0x1.0p62);
    *value = *rc::gen::inRange(static_cast<int64_t>(field.min), static_cast<int64_t>(most));
  }
  void operator()(double* value) const {
    // Any bit pattern, mapped into the range.
    const auto number = std::bit_cast<double>(*rc::gen::arbitrary<uint64_t>());
    if (std::isfinite(number) && number > field.min && number < field.max) *value = number;
  }
  void operator()(bool* value) const { *value = *rc::gen::arbitrary<bool>(); }
  void operator()(std::string* value) const {
    *value = field.choices.empty() ? *any_text() : *rc::gen::elementOf(field.choices);
  }
  void operator()(const NamedTarget& target) const {
    const std::string name = *rc::gen::elementOf(field.choices);
    *target.value =
        static_cast<uint8_t>(std::ranges::find(target.names, name) - target.names.begin());
  }
  void operator()(StringList* value) const {
    *value = *rc::gen::container<StringList>(
        rc::gen::suchThat(any_text(), [](const std::string& text) { return !text.empty(); }));
  }
};

// A recipe with random values in every field, then made consistent.
Recipe random_recipe() {
  Recipe recipe = parse("");
  for (const auto& [table, section] : recipe.sections()) {
    Fields fields;
    section->describe(fields);
    for (const Field& field : fields.all()) std::visit(Randomize{field}, field.target);
  }
  recipe.run.name = "run";
  if (recipe.run.dir.empty()) recipe.run.dir = "x";
  if (recipe.data.dir.empty()) recipe.data.dir = "x";
  recipe.data.validation_text = {"kjv=" + *any_text() + "x"};
  recipe.data.labels = {*any_text() + "0", *any_text() + "1"};
  if (recipe.data.vocabulary != VocabularyKind::kSentencePiece) recipe.data.vocabulary_model = "";
  if (recipe.train.init.empty()) recipe.train.init = "x";  // as preferences need
  if (recipe.preference.loss != PreferenceLoss::kSigmoid) recipe.preference.label_smoothing = 0;
  if (recipe.privacy.clip < 1e-6) recipe.privacy.clip = 0;
  if (recipe.privacy.noise < 0.01) recipe.privacy.noise = 0;
  if (recipe.privacy.clip == 0) recipe.privacy.noise = 0;
  if (recipe.privacy.noise == 0) recipe.privacy.sampling = 1;
  recipe.model.heads = *rc::gen::inRange(1, 20);
  recipe.model.hidden = recipe.model.heads * 2 * *rc::gen::inRange(1, 20);
  recipe.train.microbatch =
      std::min<int64_t>(recipe.train.microbatch, 1000);  // batch has a limit, too
  recipe.train.batch = recipe.train.workers + recipe.train.microbatch;
  recipe.train.sequence = 1;
  recipe.train.launcher = recipe.links.paced ? Launcher::kMpi : Launcher::kThreads;
  if (recipe.links.paced) recipe.links.step_s = 0;
  if (recipe.eval.every == 0) {
    recipe.eval.patience = 0;
    recipe.checkpoint.best = false;
  }
  if (recipe.eval.data.empty() || recipe.adapter.kind != AdapterKind::kNone ||
      recipe.train.weights != WeightFormat::kF32) {
    recipe.eval.tasks = {};
  }
  recipe.sync.clusters = recipe.sync.clustered() ? 1 : 0;
  recipe.sync.absent = {};
  if (recipe.sync.clusters == 0 && recipe.train.workers > 1) {
    recipe.sync.absent = {"1=2-" + std::to_string(*rc::gen::inRange(2, 9))};
  }
  recipe.schedule.warmup = recipe.train.steps / 2;
  recipe.schedule.decay = 1;
  if (recipe.train.steps == 1) recipe.schedule.warmup = 0;
  return recipe;
}

TEST(PrintRecipe, DefaultsShowEveryFieldResolved) {
  const std::string text = print_recipe(parse(""));
  EXPECT_THAT(text, HasSubstr("[train]\nsteps = 1000\nbatch = 16\n"));
  EXPECT_THAT(text, HasSubstr("heads = 4\ntied = false\n"));
  EXPECT_THAT(text, HasSubstr("dir = \"runs/run\"\n"));
  EXPECT_THAT(text, HasSubstr("down_bit_s = 100000000.0\n"));
  EXPECT_THAT(text, HasSubstr("[pigeon]\nbirds = 2\nmiles = 0.5\n"));
}

RC_GTEST_PROP(PrintRecipe, ReadsBackToTheSameRecipe, ()) {
  Recipe written = random_recipe();
  Recipe read = parse(print_recipe(written));
  const auto expected = written.sections();
  const auto actual = read.sections();
  RC_ASSERT(actual.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    Fields before;
    Fields after;
    expected[i].second->describe(before);
    actual[i].second->describe(after);
    for (size_t f = 0; f < before.all().size(); ++f) {
      std::visit(
          [&]<typename Target>(const Target& target) {
            RC_ASSERT(*std::get<Target>(after.all()[f].target) == *target);
          },
          before.all()[f].target);
    }
  }
}

TEST(PrintRecipe, AnotherNameMovesTheFolderThatFollowedFromTheFirst) {
  const std::string printed = print_recipe(parse_recipe("run.name = 'a'", "r.toml", {}, {}));
  const auto dir = [&](StringList overrides) {
    return parse_recipe(printed, "printed.toml", overrides, {}).run.dir;
  };
  EXPECT_EQ(dir({}), "runs/a");
  EXPECT_EQ(dir({"run.name=b"}), "runs/b");
  EXPECT_EQ(dir({"run.name=b", "run.dir=runs/a"}), "runs/a");
}

TEST(PrintChanges, AreTheFieldsWhoseValuesDiffer) {
  const Recipe changed = parse("[train]\nsteps = 7\nbatch = 16\n[pigeon]\nbirds = 3\n");
  EXPECT_EQ(print_changes(changed, parse("")), "train.steps = 7\npigeon.birds = 3\n");
  EXPECT_EQ(print_changes(parse(""), changed), "train.steps = 1000\npigeon.birds = 2\n");
  EXPECT_EQ(print_changes(changed, changed), "");
}

TEST(PrintRecipe, DoublesAreShortestAndExact) {
  double value = 0;
  Field field;
  field.target = &value;
  for (const auto& [number, text] :
       {std::pair{0.1, "0.1"}, std::pair{1e-8, "1e-08"}, std::pair{1e8, "100000000.0"},
        std::pair{1.0 / 3, "0.3333333333333333"}, std::pair{5e-324, "5e-324"},
        std::pair{-0.0, "-0.0"}}) {
    value = number;
    EXPECT_EQ(print_value(field), text);
  }
}

TEST(ExplainRecipe, GivesTypeUnitDefaultRangeChoicesAndSentence) {
  const std::string text = explain_recipe(pigeon_sections());
  EXPECT_THAT(text, HasSubstr("[train]\n  steps: integer; in steps; default 1000; >= 1"));
  EXPECT_THAT(text, HasSubstr("\n      Optimizer steps of the run.\n"));
  EXPECT_THAT(text, HasSubstr("one of cosine | linear | constant | wsd"));
  EXPECT_THAT(text, HasSubstr("[pigeon]\n  birds: integer; in birds; default 2; >= 1 and <= 9\n"
                              "      Birds in the air.\n"));
}

TEST(ExplainRecipe, EveryFieldHasASentence) {
  Recipe recipe = parse("");
  for (const auto& [table, section] : recipe.sections()) {
    Fields fields;
    section->describe(fields);
    EXPECT_FALSE(fields.all().empty()) << table;
    for (const Field& field : fields.all()) {
      EXPECT_TRUE(field.sentence.ends_with('.')) << table << '.' << field.name;
    }
  }
}

TEST(NearestName, IsFoundWithinAFewEdits) {
  const std::vector<std::string> known = {"steps", "batch", "sequence"};
  EXPECT_EQ(nearest_name("stpes", known), "steps");
  EXPECT_EQ(nearest_name("sequense", known), "sequence");
  EXPECT_EQ(nearest_name("elephant", known), "");
}

}  // namespace
}  // namespace thinwire::config
