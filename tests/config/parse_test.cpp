#include "tests/config/recipe_fixture.h"
#include "thinwire/base/file.h"
#include "thinwire/config/values.h"

namespace thinwire::config {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(ParseRecipe, SetsEveryTypeOfField) {
  const Recipe recipe = parse(R"(
    [data]
    text = ["a.txt", "b.txt"]
    [model]
    tied = true
    [train]
    steps = 12
    precision = "bf16"
    [optim]
    lr = 2.5e-3
    clip = 1
  )");
  EXPECT_THAT(recipe.data.text, ElementsAre("a.txt", "b.txt"));
  EXPECT_TRUE(recipe.model.tied);
  EXPECT_EQ(recipe.train.steps, 12);
  EXPECT_EQ(recipe.train.precision, Precision::kBf16);
  EXPECT_EQ(recipe.optim.lr, 2.5e-3);
  EXPECT_EQ(recipe.optim.clip, 1.0);
}

TEST(ParseRecipe, QuantitiesMayCarryASuffix) {
  const Recipe recipe = parse(R"(
    [data]
    shard_tokens = "2.3M"
    [links]
    up_bit_s = "10M"
  )",
                              {"links.down_bit_s=0.8G", "train.steps=25k", "eval.rows=1e3"});
  EXPECT_EQ(recipe.data.shard_tokens, 2'300'000);
  EXPECT_EQ(recipe.links.up_bit_s, 10e6);
  EXPECT_EQ(recipe.links.down_bit_s, 0.8e9);
  EXPECT_EQ(recipe.train.steps, 25'000);
  EXPECT_EQ(recipe.eval.rows, 1000);
}

TEST(ParseRecipe, BytesMayCarryASuffixOfPowersOf1024) {
  const Recipe recipe = parse(R"(
    [data]
    vocabulary_sample_bytes = "3 MiB"
  )");
  EXPECT_EQ(recipe.data.vocabulary_sample_bytes, 3'145'728);
  EXPECT_EQ(parse("", {"data.vocabulary_sample_bytes=8KiB"}).data.vocabulary_sample_bytes, 8192);
}

TEST(ParseRecipe, FillsWhatFollowsFromOtherFields) {
  EXPECT_EQ(parse("[run]\nname = \"first\"").run.dir, "runs/first");
  const auto wings = [](const Recipe& recipe) {
    return recipe.section<PigeonOptions>("pigeon").wings;
  };
  const std::string six = "[model]\nheads = 6\n";
  EXPECT_EQ(wings(parse(six, {"model.architecture=pigeon"})), 6);
  EXPECT_EQ(wings(parse(six, {"model.architecture=pigeon", "pigeon.wings=2"})), 2);
  EXPECT_EQ(wings(parse(six)), 0) << "of the chosen architecture alone";
}

TEST(ParseRecipe, ReadsTheSectionsOfMethods) {
  const Recipe recipe = parse("[pigeon]\nbirds = 3", {"pigeon.miles=7"});
  EXPECT_EQ(recipe.section<PigeonOptions>("pigeon").birds, 3);
  EXPECT_EQ(recipe.section<PigeonOptions>("pigeon").miles, 7);
  EXPECT_THROW(recipe.section<PigeonOptions>("owl"), Error);
}

TEST(ParseRecipe, CopiesDoNotShareMethodSections) {
  const Recipe first = parse("");
  Recipe second = first;
  dynamic_cast<PigeonOptions&>(*second.methods.at("pigeon")).birds = 5;
  EXPECT_EQ(first.section<PigeonOptions>("pigeon").birds, 2);
}

TEST(Overrides, WinOverTheFileAndTheLastOneCounts) {
  const Recipe recipe = parse("[train]\nsteps = 10", {"train.steps=20", "train.steps=30"});
  EXPECT_EQ(recipe.train.steps, 30);
}

TEST(Overrides, TakeTextWithAndWithoutQuotes) {
  EXPECT_EQ(parse("", {"run.dir=runs/a=b"}).run.dir, "runs/a=b");
  EXPECT_EQ(parse("", {"run.dir=\"with space\""}).run.dir, "with space");
  EXPECT_EQ(parse("", {"run.dir='C:\\n'"}).run.dir, "C:\\n");
  EXPECT_EQ(parse("", {"run.name=123"}).run.name, "123");
  EXPECT_EQ(parse("", {"train.init=true"}).train.init, "true");
}

TEST(Overrides, TakeListsWithCommasOrBrackets) {
  EXPECT_THAT(parse("", {"data.text=a.txt,b c.txt"}).data.text, ElementsAre("a.txt", "b c.txt"));
  EXPECT_THAT(parse("", {"data.text=[\"a,b.txt\"]"}).data.text, ElementsAre("a,b.txt"));
  EXPECT_THAT(parse("[data]\ntext = [\"a\"]", {"data.text="}).data.text, IsEmpty());
}

TEST(Overrides, TakeFlags) {
  EXPECT_TRUE(parse("", {"model.tied=true"}).model.tied);
  EXPECT_EQ(refusal("", {"model.tied=yes"}),
            "override 'model.tied=yes': [model] tied must be true or false, got the text \"yes\"");
}

TEST(Overrides, MustNameTableAndField) {
  EXPECT_THAT(refusal("", {"steps=3"}), HasSubstr("table.field=value"));
  EXPECT_THAT(refusal("", {"train.steps"}), HasSubstr("table.field=value"));
  EXPECT_EQ(refusal("", {"train.stpes=3"}),
            "override 'train.stpes=3': [train] has no field 'stpes'; did you mean steps?");
}

TEST(Overrides, CannotSmuggleInFurtherLines) {
  EXPECT_THAT(refusal("", {"train.steps=3\nseed=4"}), HasSubstr("must be an integer"));
}

TEST(Overrides, MayHaveSpacesAroundTheSignAndAtTheEnds) {
  EXPECT_EQ(parse("", {"train.steps = 3"}).train.steps, 3);
  EXPECT_EQ(parse("", {" train.steps\t=\t3 "}).train.steps, 3);
  EXPECT_EQ(parse("", {"data.document = \"line\""}).data.document, DocumentEnd::kLine);
  EXPECT_EQ(parse("", {"data.text_field = two words "}).data.text_field, "two words");
  EXPECT_THAT(parse("", {"data.text = [\"a\", \"b\"]"}).data.text, ElementsAre("a", "b"));
  EXPECT_EQ(parse("", {"data.text_field=\" x \""}).data.text_field, " x ");
  EXPECT_EQ(parse("", {"data.text_field= "}).data.text_field, " ");
}

TEST(Overrides, MustBeUtf8) {
  EXPECT_THAT(refusal("", {"run.dir=\xff"}), HasSubstr("not valid UTF-8"));
}

constexpr const char* kWhen = R"(
[optim]
lr = 1.0
[when.pigeon]
optim.lr = 2.0
train.steps = 7
)";

TEST(When, CountsUnderItsMethodOnly) {
  EXPECT_EQ(parse(kWhen).optim.lr, 1.0);
  EXPECT_EQ(parse(kWhen).train.steps, 1000);
  EXPECT_EQ(parse(kWhen, {"sync.method=pigeon"}).optim.lr, 2.0);
  EXPECT_EQ(parse(kWhen, {"sync.method=pigeon"}).train.steps, 7);
  EXPECT_EQ(parse(std::string(kWhen) + "[sync]\nmethod = \"pigeon\"").optim.lr, 2.0);
}

TEST(When, LosesAgainstOverrides) {
  EXPECT_EQ(parse(kWhen, {"optim.lr=3", "sync.method=pigeon"}).optim.lr, 3.0);
}

TEST(When, IsCheckedForEveryMethod) {
  EXPECT_EQ(refusal("[when.pigeon]\noptim.lr = -1"),
            "recipes/x.toml:2: [optim] lr must be > 0 and <= 1000000, got -1");
  EXPECT_EQ(refusal("[when.pigeon]\noptim.l = 1"),
            "recipes/x.toml:2: [optim] has no field 'l'; did you mean lr?");
  EXPECT_EQ(refusal("[when.owl]\noptim.lr = 1"),
            "recipes/x.toml:1: [when.owl] must be a table named after a method");
  EXPECT_EQ(refusal("[when]\npigeon = 1"),
            "recipes/x.toml:2: [when.pigeon] must be a table named after a method");
  EXPECT_EQ(refusal("[when.pigeon]\nsync.method = \"owl\""),
            "recipes/x.toml:1: [when.pigeon] cannot set [sync] method");
  EXPECT_EQ(refusal("when = 1"), "recipes/x.toml:1: 'when' must be in a table such as [train]");
}

TEST(Refusals, NameFileLineFieldAndValue) {
  EXPECT_EQ(refusal("\n[train]\nbatch = 4\nsteps = 0"),
            "recipes/x.toml:4: [train] steps must be >= 1 and <= 1000000000, got 0");
  EXPECT_EQ(refusal("[optim]\nlr = 0"),
            "recipes/x.toml:2: [optim] lr must be > 0 and <= 1000000, got 0");
  EXPECT_EQ(refusal("[pigeon]\nbirds = 10"),
            "recipes/x.toml:2: [pigeon] birds must be >= 1 and <= 9, got 10");
}

TEST(Refusals, NameBothTypes) {
  EXPECT_EQ(refusal("[train]\nsteps = \"many\""),
            "recipes/x.toml:2: [train] steps must be an integer, got the text \"many\"");
  EXPECT_EQ(refusal("[train]\nsteps = true"),
            "recipes/x.toml:2: [train] steps must be an integer, got true");
  EXPECT_EQ(refusal("[train]\nsteps = 1.5"),
            "recipes/x.toml:2: [train] steps must be an integer, got 1.5");
  EXPECT_EQ(refusal("[optim]\nlr = [\"a\"]"),
            "recipes/x.toml:2: [optim] lr must be a number or \"auto\", got the list [\"a\"]");
  EXPECT_EQ(refusal("[model]\ntied = 1"),
            "recipes/x.toml:2: [model] tied must be true or false, got the integer 1");
  EXPECT_EQ(refusal("[run]\nname = 7"),
            "recipes/x.toml:2: [run] name must be a text, got the integer 7");
  EXPECT_EQ(refusal("[data]\ntext = \"a.txt\""),
            "recipes/x.toml:2: [data] text must be a list of texts, got the text \"a.txt\"");
  EXPECT_EQ(refusal("[data]\ntext = [1]"),
            "recipes/x.toml:2: [data] text must be a list of texts, got a list that holds "
            "something else");
  EXPECT_EQ(refusal("[run]\nname = 2020-01-01"),
            "recipes/x.toml:2: [run] name must be a text, got a date or time");
  EXPECT_EQ(refusal("[run.name]\na = 1"),
            "recipes/x.toml:1: [run] name must be a text, got a table");
}

TEST(Refusals, NumbersMustBeFinite) {
  EXPECT_THAT(refusal("[optim]\nclip = inf"), HasSubstr("clip must be a finite number, got inf"));
  EXPECT_THAT(refusal("[optim]\nclip = nan"), HasSubstr("clip must be a finite number, got nan"));
  EXPECT_THAT(refusal("", {"train.steps=1e300"}), HasSubstr("steps must be an integer"));
}

TEST(Refusals, ListTheChoices) {
  EXPECT_EQ(refusal("[schedule]\nkind = \"cosin\""),
            "recipes/x.toml:2: [schedule] kind must be one of cosine, linear, constant, wsd, got "
            "\"cosin\"; did you mean cosine?");
}

TEST(Refusals, KnowOtherWordsForAChoice) {
  EXPECT_THAT(refusal("", {"train.device=gpu"}), EndsWith("got \"gpu\"; did you mean cuda?"));
  EXPECT_THAT(refusal("", {"train.precision=bfloat16"}), EndsWith("did you mean bf16?"));
  EXPECT_THAT(refusal("", {"train.precision=float32"}), EndsWith("did you mean fp32?"));
}

TEST(Refusals, AskWhatABareSmallRateMeans) {
  EXPECT_EQ(refusal("[links]\nup_bit_s = 10"),
            "recipes/x.toml:2: [links] up_bit_s = 10: is it 10 Mbit/s or 10 bit/s? Write the unit, "
            "too: 10Mbit/s");
  EXPECT_THAT(refusal("[links]\ndown_bit_s = 0.5"),
              HasSubstr("down_bit_s = 0.5: is it 0.5 Mbit/s"));
  EXPECT_THAT(refusal("", {"links.up_bit_s=\"10\""}), HasSubstr("up_bit_s = \"10\": is it"));
  const Recipe slow = parse("", {"links.up_bit_s=10 bit/s", "links.down_bit_s=2000"});
  EXPECT_EQ(slow.links.up_bit_s, 10);
  EXPECT_EQ(parse(print_recipe(slow)).links.up_bit_s, 10);
  EXPECT_THAT(print_recipe(slow), HasSubstr("down_bit_s = 2000.0\n"));
}

TEST(Refusals, SuggestOnlyWhatIsNear) {
  const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  EXPECT_EQ(nearest_name("tcsh", shells), "");
  EXPECT_EQ(nearest_name("bsah", shells), "bash");
  EXPECT_EQ(nearest_name("fissh", shells), "fish");
  EXPECT_EQ(nearest_name("--task", std::vector<std::string>{"--data", "--text"}), "");
  EXPECT_EQ(nearest_name("gen", std::vector<std::string>{"generate"}), "generate");
}

TEST(Refusals, ATextInPlaceOfARecipeIsToldWhereTextsAreNamed) {
  const auto refused = [](const char* origin) {
    try {
      parse_recipe("Once upon a time\n", origin, {}, {});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused("tales.txt"),
              AllOf(StartsWith("tales.txt is no TOML file (line 1: "),
                    EndsWith("; a recipe is one, and names the text to train on: data.text = "
                             "[\"tales.txt\"]")));
  EXPECT_THAT(refused("tales.jsonl.zst"), EndsWith("data.text = [\"tales.jsonl.zst\"]"));
  EXPECT_THAT(refused("tales.toml"), StartsWith("tales.toml:1: "));
}

TEST(Refusals, ARecipeOfAnotherFormatIsToldThatRecipesAreToml) {
  const auto refused = [](const char* text, const char* origin) {
    try {
      parse_recipe(text, origin, {}, {});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const auto& [text, origin] : {std::pair("base_model: x\n", "axolotl.yaml"),
                                     std::pair("{\"model\": 1}\n", "config.json")}) {
    EXPECT_THAT(refused(text, origin),
                AllOf(StartsWith(std::string(origin) + " is no TOML file (line 1: "),
                      EndsWith("as in:\n[train]\nsteps = 2000"), Not(HasSubstr("data.text"))));
  }
}

TEST(Refusals, SayHowQuantitiesAreWritten) {
  EXPECT_EQ(refusal("", {"links.up_bit_s=10MB"}),
            "override 'links.up_bit_s=10MB': [links] up_bit_s = \"10MB\": does it count bytes "
            "(10MB/s) or bits (10Mbit/s)?");
  EXPECT_THAT(
      refusal("", {"links.up_bit_s=10MW"}),
      EndsWith("numbers are written like 1e7, 2.5M or \"2.5M bit/s\" (suffixes k, M, G, T or P)"));
  EXPECT_EQ(parse("", {"links.up_bit_s=10M bit/s"}).links.up_bit_s, 10e6);
  EXPECT_EQ(parse("[links]\ndown_bit_s = \"100Mbps\"", {}).links.down_bit_s, 100e6);
  EXPECT_EQ(parse("", {"links.up_bit_s=10MB/s"}).links.up_bit_s, 80e6);
  EXPECT_THAT(
      refusal("[train]\nsteps = \"1_000x\""),
      EndsWith("numbers are written like 1e7, 2.5M or \"2.5M steps\" (suffixes k, M, G, T or P)"));
  EXPECT_THAT(refusal("", {"links.delay_s=20 apples"}),
              EndsWith("times are written like 20ms, 1.5s, 10min, 2h or 1d"));
  EXPECT_EQ(parse("", {"links.delay_s=20"}).links.delay_s, 20);
  EXPECT_EQ(parse("[links]\ndelay_s = \"35ms\"", {}).links.delay_s, 0.035);
  EXPECT_EQ(parse("", {"checkpoint.minutes=2h"}).checkpoint.minutes, 120);
  EXPECT_EQ(parse("", {"sync.timeout_s=20"}).sync.timeout_s, 20);
  EXPECT_THAT(refusal("", {"optim.lr=3e-4x"}), HasSubstr("like 1e7 or 2.5M (suffixes"));
  EXPECT_THAT(refusal("", {"data.vocabulary_sample_bytes=8miB"}),
              HasSubstr("suffixes k, M, G, T, P or Ki, Mi, Gi, Ti, Pi"));
}

TEST(Refusals, AskWhetherAPointSeparatesThousands) {
  EXPECT_EQ(refusal("", {"train.steps=1.000"}),
            "override 'train.steps=1.000': is it 1000 or 1? Write a whole number without a point");
  EXPECT_EQ(refusal("", {"train.steps=12.500"}),
            "override 'train.steps=12.500': is it 12500 or 12.500? Write a whole number without a "
            "point");
  EXPECT_EQ(parse("", {"train.steps=1.0"}).train.steps, 1);
  EXPECT_EQ(parse("", {"train.steps=1.5k"}).train.steps, 1500);
  EXPECT_EQ(parse("", {"links.delay_s=1.500"}).links.delay_s, 1.5);
}

TEST(Refusals, ProposeTheNearestName) {
  EXPECT_EQ(refusal("[train]\nstep = 5"),
            "recipes/x.toml:2: [train] has no field 'step'; did you mean steps?");
  EXPECT_EQ(refusal("[trian]\nsteps = 5"),
            "recipes/x.toml:1: there is no table [trian]; did you mean [train]?");
  EXPECT_EQ(refusal("[train]\ninit_std = 5"),
            "recipes/x.toml:2: [train] has no field 'init_std'; did you mean [model] init_std?");
  EXPECT_THAT(refusal("[eval]\nelephant = 5"), HasSubstr("its fields are every, rows"));
  EXPECT_THAT(refusal("[elephant]"), HasSubstr("the tables are run, data, model"));
}

TEST(Refusals, KeysOutsideTablesAndDoubleTables) {
  EXPECT_EQ(refusal("steps = 5"), "recipes/x.toml:1: 'steps' must be in a table such as [train]");
  EXPECT_THAT(refusal("[[train]]\nsteps = 5"), HasSubstr("must be in a table"));
  EXPECT_THAT(refusal("[train]\nsteps = 5\nsteps = 6"), StartsWith("recipes/x.toml:3: "));
}

TEST(Refusals, SayWhereTheTomlIsBroken) {
  EXPECT_THAT(refusal("[train]\nsteps = \n"), StartsWith("recipes/x.toml:2: "));
  EXPECT_THAT(refusal("[train\n"), StartsWith("recipes/x.toml:1: "));
}

TEST(LoadRecipe, MissingFileIsWrongUse) {
  EXPECT_THROW(load_recipe("no/such.toml", {}, pigeon_sections()), UsageError);
}

TEST(LoadRecipe, WithoutAFileGivesTheDefaults) {
  const Recipe recipe = load_recipe("", {}, pigeon_sections());
  EXPECT_EQ(recipe.train.steps, TrainSection().steps);
}

TEST(LoadRecipe, NamesTheFileInContradictions) {
  const fs::path path = fs::path(testing::TempDir()) / "contradiction.toml";
  write_file(path, "[train]\nbatch = 3\nworkers = 4\n");
  try {
    load_recipe(path, {}, pigeon_sections());
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("contradiction.toml: [train] workers must be <= batch"));
  }
}

}  // namespace
}  // namespace thinwire::config
