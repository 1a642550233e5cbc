
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/tiny_run.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

config::Recipe layer(std::vector<std::string> fields) {
  fields.insert(fields.begin(), {"model.vocab=4096", "train.update=layer", "optim.clip=0"});
  return load_recipe({}, fields);
}

std::string refusal(const std::vector<std::string>& fields) {
  return tests::error_of([&] { load_recipe({}, fields); });
}

double gradients_of(const config::Recipe& recipe) {
  const auto tensors = tensors_of(recipe);
  return step_memory(recipe, tensors, {}, 1).gradients;
}

TEST(Updates, ClippingByStepIsRefusedWithTheWaysOut) {
  EXPECT_THAT(refusal({"train.update=layer"}),
              AllOf(HasSubstr("optim.clip = 1"), HasSubstr("optim.clip_by = \"previous\""),
                    HasSubstr("\"tensor\""), HasSubstr("optim.clip = 0"),
                    HasSubstr("train.update = \"step\"")));
  for (const char* way : {"optim.clip=0", "optim.clip_by=previous", "optim.clip_by=tensor"}) {
    EXPECT_EQ(refusal({"train.update=layer", way}), tests::kNoError) << way;
  }
}

TEST(Updates, SeveralPassesOfAStepAreRefusedWithTheWaysOut) {
  const std::vector<std::string> fields = {"train.update=layer", "optim.clip=0", "train.batch=8",
                                           "train.workers=2"};
  const auto with = [&](const char* field) {
    std::vector<std::string> all = fields;
    all.emplace_back(field);
    return all;
  };
  EXPECT_THAT(refusal(with("train.microbatch=2")),
              AllOf(HasSubstr("microbatch = 2 of 4 rows"), HasSubstr("train.microbatch = 0"),
                    HasSubstr("model.recompute"), HasSubstr("train.update = \"step\"")));
  EXPECT_EQ(refusal(with("train.microbatch=4")), tests::kNoError);
  std::vector<std::string> speeds = with("sync.shares=speed");
  speeds.emplace_back("sync.method=diloco");
  EXPECT_THAT(refusal(speeds), HasSubstr("sync.shares = \"speed\""));
  std::vector<std::string> absent = with("sync.absent=[\"1=2-2\"]");
  absent.emplace_back("sync.method=diloco");
  EXPECT_THAT(refusal(absent), HasSubstr("sync.absent = [\"1=2-2\"]"));
}

TEST(Updates, MethodsThatNeedTheWholeGradientAreRefusedByName) {
  const std::vector<std::string> fields = {"train.update=layer", "optim.clip=0", "train.workers=4"};
  std::vector<std::string> whole = fields;
  whole.emplace_back("sync.method=distro");
  EXPECT_THAT(refusal(whole), AllOf(HasSubstr("sync.method = \"distro\""), HasSubstr("allreduce"),
                                    HasSubstr("diloco"), HasSubstr("train.update = \"step\"")));
  std::vector<std::string> within = fields;
  within.insert(within.end(), {"sync.method=diloco", "sync.within=distro", "sync.clusters=2"});
  EXPECT_THAT(refusal(within), HasSubstr("sync.within = \"distro\""));
  EXPECT_THAT(refusal({"sync.method=distro", "optim.clip_by=tensor"}),
              HasSubstr("clip_by = \"tensor\" contradicts sync.method = \"distro\""));
}

TEST(ProjectedGradients, AreAWayOutOfClippingAndPassesWithLayer) {
  const std::vector<std::string> fields = {"optim.method=galore", "train.update=layer"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), fields.begin(), fields.end());
    return more;
  };
  EXPECT_THAT(refusal(fields), HasSubstr("optim.gradients = \"projected\""));
  EXPECT_THAT(refusal(with({"optim.clip=0", "train.microbatch=2"})),
              HasSubstr("optim.gradients = \"projected\""));
  EXPECT_THAT(refusal({"train.update=layer"}), Not(HasSubstr("projected")));
  EXPECT_EQ(refusal(with({"optim.gradients=projected"})), tests::kNoError);
  EXPECT_EQ(refusal(with({"optim.gradients=projected", "train.microbatch=2"})), tests::kNoError);
}

TEST(ProjectedGradients, AreRefusedWhereTheyAreNotEnough) {
  EXPECT_THAT(refusal({"optim.gradients=projected", "optim.method=fira"}),
              AllOf(HasSubstr("galore or natural_galore"), HasSubstr("got method = \"fira\""),
                    HasSubstr("gradients = \"whole\"")));
  EXPECT_THAT(refusal({"optim.gradients=projected", "optim.method=galore", "train.workers=2",
                       "sync.method=diloco", "sync.within=allreduce", "sync.clusters=1"}),
              AllOf(HasSubstr("sync.within = \"none\", got \"allreduce\""),
                    HasSubstr("gradients = \"whole\"")));
  EXPECT_EQ(refusal({"optim.gradients=projected", "optim.method=galore", "train.workers=2"}),
            tests::kNoError);
  EXPECT_EQ(refusal({"optim.gradients=projected", "optim.method=galore", "train.workers=2",
                     "sync.method=diloco"}),
            tests::kNoError);
  EXPECT_EQ(refusal({"optim.gradients=projected", "optim.method=galore", "galore.basis=seeded",
                     "train.workers=2", "sync.method=diloco", "sync.within=allreduce",
                     "sync.clusters=1"}),
            tests::kNoError);
}

TEST(ProjectedGradients, AreKeptUnlessTheyCanBeUsedUpOneByOne) {
  const auto store = [](std::vector<std::string> fields) {
    fields.insert(fields.end(), {"optim.method=galore", "optim.gradients=projected"});
    return gradient_store(load_recipe({}, fields));
  };
  EXPECT_EQ(store({}), GradientStore::kProjected);
  EXPECT_EQ(store({"train.update=layer"}), GradientStore::kProjected);
  EXPECT_EQ(store({"train.update=layer", "optim.clip=0", "train.microbatch=1"}),
            GradientStore::kProjected);
  EXPECT_EQ(store({"train.update=layer", "optim.clip=0"}), GradientStore::kStreamed);
  EXPECT_EQ(gradient_store(load_recipe({}, {})), GradientStore::kWhole);
}

TEST(ProjectedGradients, TakeTheMemoryOfProjectionsAndOfWhatIsRenewedAtOnce) {
  const auto bytes = [](std::vector<std::string> fields) {
    fields.insert(fields.end(), {"model.vocab=4096", "model.hidden=64", "model.heads=2",
                                 "llama.intermediate=192", "model.layers=2", "optim.method=galore",
                                 "galore.rank=16", "optim.gradients=projected"});
    return gradients_of(load_recipe({}, fields));
  };
  constexpr double kRest = 2 * 4096 * 64 + 5 * 64;              // embedding, head and norms
  constexpr double kProjections = 2 * 16 * (4 * 64 + 3 * 192);  // of two blocks
  constexpr double kMatrix = 64 * 192;
  EXPECT_EQ(bytes({}), 4 * (kRest + kProjections + kMatrix));
  // 14 matrices, of which 2 are renewed in the same step.
  EXPECT_EQ(bytes({"train.microbatch=1", "galore.refresh=7"}),
            4 * (kRest + kProjections + 2 * kMatrix));
  EXPECT_EQ(bytes({"galore.basis=seeded"}), 4 * (kRest + kProjections));
  EXPECT_EQ(bytes({"train.update=layer", "optim.clip=0"}), 4.0 * 4096 * 64);
  // Beside the head's gradient, twice that of the group of head and final norm.
  EXPECT_EQ(bytes({"train.update=layer", "optim.clip=0", "train.workers=2"}),
            4.0 * (3 * 4096 * 64 + 2 * 64));
}

TEST(Updates, ClipByMeansNothingWithoutClipping) {
  EXPECT_THAT(ignored_fields(load_recipe(
                  {}, std::vector<std::string>{"optim.clip=0", "optim.clip_by=tensor"})),
              ElementsAre("optim.clip_by = \"tensor\" is ignored: optim.clip is 0"));
}

TEST(Updates, HoldOneGradientAloneAndTwoGroupsBesideItTogether) {
  constexpr double kHead = 4.0 * 4096 * 128;  // the largest tensor
  constexpr double kNorm = 4.0 * 128;
  EXPECT_EQ(gradients_of(layer({})), kHead);
  EXPECT_EQ(gradients_of(layer({"train.workers=4"})), kHead + 2 * (kHead + kNorm));
  EXPECT_EQ(gradients_of(layer({"train.workers=4", "sync.method=diloco"})), kHead);
  EXPECT_EQ(gradients_of(layer({"train.workers=4", "sync.method=diloco", "sync.within=allreduce",
                                "sync.clusters=2"})),
            kHead + 2 * (kHead + kNorm));
}

TEST(VocabularySlabs, HoldTheGradientOfOneSlabAlone) {
  constexpr double kBlock = 4.0 * 2 * 128 * 512;  // gate and up
  constexpr double kHead = 4.0 * 4096 * 128;
  const auto slabs = [](std::vector<std::string> fields) {
    fields.insert(fields.end(), {"llama.intermediate=512"});
    return gradients_of(layer(fields));
  };
  EXPECT_EQ(slabs({"model.vocab_slabs=2"}), kHead / 2);
  // Cut at multiples of 32 rows.
  EXPECT_EQ(slabs({"model.vocab_slabs=3"}), 4.0 * 1376 * 128);
  EXPECT_EQ(slabs({"model.vocab_slabs=64"}), kBlock);
  // The sums of groups are those of whole gradients.
  EXPECT_EQ(slabs({"model.vocab_slabs=2", "train.workers=4"}), kHead / 2 + 2 * (kHead + 4.0 * 128));
  EXPECT_EQ(slabs({"model.vocab_slabs=2", "optim.method=galore", "optim.gradients=projected"}),
            kHead / 2);
  EXPECT_EQ(slabs({"model.vocab_slabs=2", "train.init=base", "adapter.kind=lora",
                   "adapter.whole=[\"lm_head\"]"}),
            kHead / 2);
}

TEST(VocabularySlabs, AreRefusedWhereRowsCannotComeOneAfterTheOther) {
  const auto refused = [](std::vector<std::string> fields) {
    fields.emplace_back("model.vocab_slabs=4");
    return refusal(fields);
  };
  const auto with = [&](std::vector<std::string> fields) {
    fields.insert(fields.end(), {"train.update=layer", "optim.clip_by=previous"});
    return refused(fields);
  };
  EXPECT_EQ(with({}), tests::kNoError);
  EXPECT_EQ(with({"optim.clip=0"}), tests::kNoError);
  EXPECT_THAT(refused({}),
              AllOf(HasSubstr("[model] vocab_slabs = 4 needs train.update = \"layer\", got "
                              "\"step\""),
                    HasSubstr("or model.vocab_slabs = 1")));
  EXPECT_THAT(refused({"train.update=layer", "optim.clip_by=tensor"}),
              AllOf(HasSubstr("optim.clip_by = \"tensor\""), HasSubstr("\"previous\"")));
  EXPECT_THAT(refused({"train.update=layer", "optim.method=galore", "optim.gradients=projected"}),
              AllOf(HasSubstr("clipped by its own norm"), HasSubstr("optim.clip = 0")));
  EXPECT_THAT(with({"model.tied=true"}), HasSubstr("needs tied = false, got true"));
  EXPECT_THAT(with({"train.device=torch_cpu"}),
              HasSubstr("needs train.device = \"cpu\", got \"torch_cpu\""));
  EXPECT_THAT(with({"model.architecture=roberta", "roberta.labels=67", "data.records=labels"}),
              HasSubstr("needs an architecture whose head predicts tokens, got \"roberta\""));
}

TEST(VocabularySlabs, NeedAnOptimizerThatTakesRows) {
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    const std::string message =
        refusal({"train.update=layer", "optim.clip=0", "model.vocab_slabs=4",
                 "optim.method=" + std::string(optimizer->name)});
    if (optimizer->vocabulary_by_rows) {
      EXPECT_EQ(message, tests::kNoError) << optimizer->name;
    } else {
      EXPECT_THAT(message, AllOf(HasSubstr("got optim.method = \"scale\""),
                                 HasSubstr("adamw, apollo, fira, galore, muon, natural_galore")));
    }
  }
}

TEST(Updates, WorkersOfAStepAreThoseOfTheLargestCluster) {
  EXPECT_EQ(members_of_a_step(layer({"train.workers=5"})), 5);
  EXPECT_EQ(members_of_a_step(layer({"train.workers=5", "sync.method=sparse"})), 1);
  EXPECT_EQ(members_of_a_step(layer({"train.workers=5", "sync.method=sparse",
                                     "sync.within=allreduce", "sync.clusters=2"})),
            3);
}

TEST(Updates, ThePreviousNormIsState) {
  const auto bytes = [&](const std::vector<std::string>& fields) {
    const config::Recipe recipe = load_recipe({}, fields);
    const auto state = find_method(recipe.sync.method).state(recipe, tensors_of(recipe));
    return state.consensus + state.local;
  };
  for (const char* method : {"sync.method=allreduce", "sync.method=diloco"}) {
    EXPECT_EQ(bytes({"model.vocab=64", method, "optim.clip_by=previous"}),
              bytes({"model.vocab=64", method}) + 4);
  }
}

}  // namespace
}  // namespace thinwire::method
