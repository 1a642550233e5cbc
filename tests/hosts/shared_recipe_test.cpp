#include "thinwire/hosts/shared_recipe.h"

#include <gmock/gmock.h>

#include <functional>

#include "../tiny_run.h"
#include "thinwire/base/cores.h"
#include "thinwire/base/error.h"

namespace thinwire::hosts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

config::Recipe recipe(const std::vector<std::string>& overrides) {
  return method::load_recipe({}, overrides);
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(SharedRecipe, LeavesOutWhatBelongsToTheMachine) {
  const std::string text = shared_recipe_text(
      recipe({"run.dir=/home/me/secret", "data.dir=/home/me/tokens", "data.text=/home/me/text.txt",
              "train.threads=3", "train.init=/home/me/model", "log.every=7", "optim.lr=0.125"}));
  EXPECT_THAT(text, Not(HasSubstr("/home/me")));
  EXPECT_THAT(text, HasSubstr("lr = 0.125"));
  EXPECT_THAT(text, HasSubstr("threads = 1"));
}

TEST(SharedRecipe, SaysWhoseTextIsLearntAndHowItIsHidden) {
  const std::string text = shared_recipe_text(
      recipe({"data.own=true", "sync.method=diloco", "privacy.clip=0.5", "privacy.noise=2"}));
  const config::Recipe member = member_recipe(text, {}, "here", "mine");
  EXPECT_TRUE(member.data.own);
  EXPECT_EQ(member.privacy.clip, 0.5);
  EXPECT_EQ(member.privacy.noise, 2);
}

TEST(SharedRecipe, DoesNotDependOnTheMachine) {
  EXPECT_EQ(shared_recipe_text(recipe({"run.dir=a", "train.threads=2"})),
            shared_recipe_text(recipe({"run.dir=b", "links.down_bit_s=5e6"})));
}

TEST(SharedRecipe, DifferencesNameTheFields) {
  EXPECT_THAT(shared_differences(recipe({"optim.lr=0.1", "run.dir=a"}),
                                 recipe({"optim.lr=0.2", "run.dir=b"})),
              ElementsAre("optim.lr was 0.1, is 0.2"));
}

TEST(SharedRecipe, AMemberSetsOnlyWhatBelongsToItsMachine) {
  const std::vector<std::string> own = {"run.dir=x",     "data.dir=y",       "train.threads=1",
                                        "train.init=/x", "train.device=cpu", "train.precision=fp32",
                                        "log.every=5",   "links.delay_s=0.1"};
  EXPECT_EQ(refusal([&] { check_local_overrides(own); }), "");
  for (const std::string field : {"optim.lr=1", "train.steps=3", "run.seed=2", "data.text=t",
                                  "run.name=n", "adapter.init=/x"}) {
    const std::vector<std::string> one = {field};
    EXPECT_THAT(refusal([&] { check_local_overrides(one); }),
                HasSubstr(field.substr(0, field.find('=')) + " belongs to the run"));
  }
}

TEST(SharedRecipe, AMemberSetsOnlyWhatItsMachineHas) {
  const std::vector<std::string> own = {fmt::format("train.threads={}", cores_here().affinity + 1)};
  EXPECT_THAT(refusal([&] { check_local_overrides(own); }),
              HasSubstr("[train] threads must be <= "));
}

TEST(SharedRecipe, AMemberTrainsByTheRunsFieldsInItsOwnFolders) {
  const std::string text =
      shared_recipe_text(recipe({"run.dir=there", "train.steps=77", "model.vocab=300"}));
  const std::vector<std::string> own = {"train.threads=2", "run.dir=ignored"};
  const config::Recipe member = member_recipe(text, own, "here", "mine");
  EXPECT_EQ(member.train.steps, 77);
  EXPECT_EQ(member.model.vocab, 300);
  EXPECT_EQ(member.train.threads, 2);
  EXPECT_EQ(member.run.dir, "here");
  EXPECT_EQ(member.data.dir, "mine");
}

TEST(SharedRecipe, AMemberComputesOnTheCoresThatItMayUse) {
  const std::string text = shared_recipe_text(recipe({"train.threads=3", "model.vocab=300"}));
  EXPECT_EQ(member_recipe(text, {}, "here", "mine").train.threads, available_cores());
  const std::vector<std::string> ranks = {"train.launcher=mpi"};
  EXPECT_EQ(member_recipe(text, ranks, "here", "mine").train.threads, 1);
}

TEST(SharedRecipe, AMemberKnowsWhatIsLearnt) {
  const std::string text = shared_recipe_text(
      recipe({"data.records=labels", "model.architecture=roberta", "model.vocab=300"}));
  EXPECT_EQ(member_recipe(text, {}, "here", "mine").data.records, config::RecordKind::kLabels);
}

TEST(SharedRecipe, AMemberOfARunWithAnAdapterHasTheBaseInAFolderOfItsOwn) {
  const std::string text = shared_recipe_text(
      recipe({"adapter.kind=lora", "train.init=there", "adapter.init=factors", "model.vocab=300"}));
  EXPECT_THAT(text, testing::Not(HasSubstr("there")));
  EXPECT_THAT(text, testing::Not(HasSubstr("factors")));
  EXPECT_EQ(member_recipe(text, {}, "here", "mine", "copy").train.init, "copy");
  EXPECT_EQ(member_recipe(text, {}, "here", "mine").train.init, kSharedBase);
  const std::vector<std::string> own = {"train.init=copy"};
  check_local_overrides(own);
}

TEST(SharedRecipe, AMemberReadsTasksInItsOwnFolder) {
  const std::string text = shared_recipe_text(recipe(
      {"eval.tasks=[\"arc_easy\", \"there/words.toml\"]", "eval.data=there", "model.vocab=300"}));
  EXPECT_THAT(text, testing::Not(HasSubstr("there")));
  const config::Recipe member = member_recipe(text, {}, "here", "mine");
  EXPECT_EQ(member.eval.tasks, (config::StringList{"arc_easy", "here/tasks/words.toml"}));
  EXPECT_EQ(member.eval.data, "here/tasks/data");
  for (const char* path : {"[eval]\ntasks = [\"/etc/words.toml\"]\ndata = \"tasks\"\n",
                           "[eval]\ntasks = [\"arc_easy\"]\ndata = \"/etc\"\n"}) {
    EXPECT_THAT(refusal([&] { (void)member_recipe(path, {}, "here", "mine"); }),
                HasSubstr("which a received recipe may not do"));
  }
}

TEST(SharedRecipe, AReceivedRecipeHasABaseIfAndOnlyIfTheDescriptionHasOne) {
  const std::string with =
      shared_recipe_text(recipe({"adapter.kind=lora", "train.init=there", "model.vocab=300"}));
  const std::string without = shared_recipe_text(recipe({"model.vocab=300"}));
  EXPECT_THAT(refusal([&] { (void)member_recipe(with, {}, "here", "mine", ""); }),
              HasSubstr("it has an adapter's base, and the run's description has none"));
  EXPECT_THAT(refusal([&] { (void)member_recipe(without, {}, "here", "mine", "copy"); }),
              HasSubstr("it does not have an adapter's base, and the run's description has one"));
  EXPECT_EQ(member_recipe(without, {}, "here", "mine", "").train.init, "");
}

TEST(SharedRecipe, AReceivedRecipeCannotSetPathsOrSpeakToTheTerminal) {
  const config::Recipe member = member_recipe("[run]\ndir = \"/etc\"\n", {}, "here", "mine");
  EXPECT_EQ(member.run.dir, "here");
  EXPECT_THAT(refusal([] { (void)member_recipe("[data]\ndir = \"/etc\"\n", {}, "here", "mine"); }),
              HasSubstr("data.dir"));
  EXPECT_THAT(
      refusal([] { (void)member_recipe("[eval]\nwatch = \"\\u001b[2J\"\n", {}, "here", "mine"); }),
      HasSubstr("eval.watch has control characters"));
  EXPECT_THAT(
      refusal([] { (void)member_recipe("[train]\ninit = \"/etc\"\n", {}, "here", "mine"); }),
      HasSubstr("train.init"));
  EXPECT_THAT(refusal([] {
                (void)member_recipe("[train]\ninit = \"/etc\"\n[adapter]\nkind = \"lora\"\n", {},
                                    "here", "mine");
              }),
              HasSubstr("train.init"));
}

}  // namespace
}  // namespace thinwire::hosts
