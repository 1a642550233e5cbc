#include "thinwire/config/check.h"

#include "tests/config/recipe_fixture.h"

namespace thinwire::config {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

TEST(Contradictions, OfOverridesAreBlamedOnThem) {
  EXPECT_THAT(refusal("[train]\nbatch = 3", {"train.steps=5", "train.workers=4"}),
              testing::StartsWith("override 'train.workers=4': [train] workers must be <= batch"));
  EXPECT_THAT(refusal("", {"train.batch=3", "train.workers=4"}),
              testing::StartsWith("override 'train.batch=3' and 'train.workers=4': [train]"));
  EXPECT_THAT(refusal("[train]\nbatch = 3\nworkers = 4", {"train.steps=5"}),
              testing::StartsWith("recipes/x.toml: [train] workers must be <= batch"));
}

TEST(Contradictions, OfSeveralOverridesAreBlamedOnTheseAlone) {
  EXPECT_THAT(refusal("", {"optim.lr=1", "schedule.kind=wsd", "train.steps=10", "train.batch=8",
                           "schedule.warmup=4", "schedule.decay=7", "run.name=a"}),
              testing::StartsWith("override 'schedule.kind=wsd' and 'train.steps=10' and "
                                  "'schedule.warmup=4' and 'schedule.decay=7': [schedule]"));
  EXPECT_THAT(refusal("", {"train.batch=8", "train.workers=40"}),
              testing::StartsWith("override 'train.workers=40': [train] workers must be <= batch, "
                                  "got workers 40 and batch 8"));
  // A recipe that stays wrong in a different way without an override is no reason to blame them
  // all.
  EXPECT_THAT(
      refusal("", {"eval.every=0", "eval.patience=2", "train.steps=5", "checkpoint.best=true"}),
      testing::StartsWith("override 'eval.patience=2': [eval] patience = 2 needs"));
  EXPECT_THAT(refusal("[checkpoint]\nbest = true", {"train.steps=5", "eval.patience=2"}),
              testing::StartsWith("override 'eval.patience=2': [eval] patience = 2 needs"));
}

TEST(Contradictions, AreNotBlamedOnWhatOnlyAvoidsAnother) {
  EXPECT_THAT(refusal("[train]\nsteps = 10\n[schedule]\nwarmup = 1\n[eval]\nevery = 0",
                      {"schedule.warmup=20", "eval.every=5", "eval.patience=2"}),
              testing::StartsWith("override 'schedule.warmup=20': [schedule]"));
}

TEST(Contradictions, ARepeatedOverrideIsBlamedOnce) {
  EXPECT_THAT(refusal("", {"train.batch=3", "train.workers=4", "train.batch=3"}),
              testing::StartsWith("override 'train.workers=4' and 'train.batch=3': [train]"));
}

TEST(Contradictions, OfAFurtherCheckAreBlamedAlike) {
  const Check no_owls = [](const Recipe& recipe) {
    if (recipe.sync.method == "owl") throw UsageError("no owls");
  };
  const auto blamed = [&](std::string_view toml, const std::vector<std::string>& overrides) {
    try {
      parse_recipe(toml, "x.toml", overrides, pigeon_sections(), no_owls);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("(accepted)");
  };
  EXPECT_EQ(blamed("[sync]\nmethod = \"owl\"", {}), "x.toml: no owls");
  EXPECT_EQ(blamed("", {"sync.method=owl"}), "override 'sync.method=owl': no owls");
  EXPECT_EQ(blamed("[sync]\nmethod = \"owl\"", {"sync.method=pigeon"}), "(accepted)");
}

TEST(Contradictions, EveryWorkerNeedsARow) {
  EXPECT_THAT(refusal("[train]\nbatch = 3\nworkers = 4"), EndsWith("more workers than batch rows"));
  EXPECT_EQ(refusal("[train]\nbatch = 4\nworkers = 4"), "(accepted)");
  EXPECT_THAT(refusal("[train]\nbatch = 4\nmicrobatch = 5"),
              HasSubstr("microbatch must be <= batch"));
}

TEST(Contradictions, TokensMustBeCountable) {
  EXPECT_THAT(refusal("[train]\nsteps = 1000000000\nbatch = 100000000\nsequence = 10000000"),
              HasSubstr("steps * batch * sequence"));
}

TEST(Contradictions, TheScheduleMustFitIntoTheSteps) {
  EXPECT_THAT(refusal("[train]\nsteps = 10\n[schedule]\nwarmup = 11"),
              EndsWith("got warmup 11 and steps 10"));
  const std::string wsd = "[train]\nsteps = 10\n[schedule]\nkind = \"wsd\"\nwarmup = 4\ndecay = ";
  EXPECT_EQ(refusal(wsd + "6"), "(accepted)");
  EXPECT_THAT(refusal(wsd + "7"), EndsWith("got 4 + 7 and steps 10"));
  EXPECT_THAT(refusal(wsd + "0"), HasSubstr("decay must be >= 1 for kind wsd"));
}

TEST(Contradictions, OnlyRanksAreHeldBack) {
  EXPECT_EQ(refusal("[train]\nengine = \"mpi\"\n[links]\npaced = true"), "(accepted)");
  EXPECT_THAT(refusal("[links]\npaced = true"), HasSubstr("needs [train] launcher = \"mpi\""));
}

TEST(Contradictions, ValidationSetsNeedNamesOfTheirOwn) {
  EXPECT_EQ(refusal("[data]\nvalidation_text = [\"kjv=a=b.txt\"]"), "(accepted)");
  EXPECT_THAT(refusal("[data]\nvalidation_text = [\"kjv.txt\"]"), HasSubstr("name=path"));
  EXPECT_THAT(refusal("[data]\nvalidation_text = [\"kjv=\"]"), HasSubstr("name=path"));
  EXPECT_THAT(refusal("[data]\nvalidation_text = [\"../up=a.txt\"]"), HasSubstr("name=path"));
  EXPECT_THAT(refusal("[data]\nvalidation_text = [\"a=1\", \"a=2\"]"), HasSubstr("'a' twice"));
  EXPECT_THAT(refusal("[data]\nvalidation_text = [\"validation=1\"]"), HasSubstr("twice"));
  EXPECT_THAT(refusal("[data]\nvalidation_text = [\"train=1\"]"), HasSubstr("twice"));
}

TEST(Contradictions, TasksNeedDataAndWholeModelsInFp32) {
  EXPECT_THAT(refusal("[eval]\ntasks = [\"piqa\"]"), testing::HasSubstr("[eval] tasks needs data"));
  const std::string scored = "[eval]\ntasks = [\"piqa\"]\ndata = \"sets\"\n";
  EXPECT_THAT(refusal(scored + "[adapter]\nkind = \"lora\""),
              testing::HasSubstr("[eval] tasks needs [adapter] kind = \"none\", got \"lora\""));
  EXPECT_THAT(refusal(scored + "[train]\nweights = \"bf16\""),
              testing::HasSubstr("[eval] tasks needs [train] weights = \"fp32\", got \"bf16\""));
}

TEST(Contradictions, PreparedDataNeedAFolder) {
  EXPECT_EQ(refusal("[data]\ndir = \"\""), "recipes/x.toml: [data] dir must name a folder, got ''");
}

TEST(Contradictions, AModelFileIsForSentencePieceOnly) {
  EXPECT_THAT(refusal("[data]\nvocabulary = \"byte\"\nvocabulary_model = \"x.model\""),
              HasSubstr("needs vocabulary = sentencepiece"));
}

TEST(Contradictions, TheRunsNameMustBeAFolderName) {
  for (const char* name : {"", "a/b", "..", "a b"}) {
    EXPECT_THAT(refusal("", {std::string("run.name=") + name}), HasSubstr("[run] name must be"));
  }
}

}  // namespace
}  // namespace thinwire::config
