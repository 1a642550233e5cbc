#include "thinwire/plan/expected_loss.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "thinwire/method/registry.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {
namespace {

using testing::HasSubstr;

constexpr double kPaperSize = 512e6;

// A recipe of 1000 steps by this method with some of its fields.
Candidate candidate_of(const std::string& method, const std::vector<std::string>& fields) {
  std::vector<std::string> overrides = {"model.vocab=512", "train.steps=1000",
                                        "sync.method=" + method};
  for (const std::string& field : fields) {
    overrides.push_back(field.find('.') < field.find('=') ? field : method + "." + field);
  }
  return {method, "", method::load_recipe("", overrides), {}};
}

// The loss of a model with this many parameters.
ExpectedLoss loss_of(Candidate candidate, double parameters = kPaperSize,
                     const std::vector<MethodLaw>& own = {}) {
  const PlannedModel model = planned_model(candidate.recipe);
  const int64_t every = method::find_method(candidate.method).sync_every(candidate.recipe);
  return expected_loss(candidate, every, {model.tensors, parameters, parameters}, own);
}

TEST(ExpectedLoss, OfDistroIsAllReducesPlusTheGapAtItsCoverage) {
  const double all_reduce = *loss_of(candidate_of("allreduce", {})).nats;
  const ExpectedLoss loss = loss_of(candidate_of("distro", {}));
  EXPECT_NEAR(loss.coverage, 1000 * 32 / 4096.0, 0.1);
  ASSERT_TRUE(loss.gap);
  EXPECT_GT(loss.gap->nats, 0.1);
  EXPECT_DOUBLE_EQ(*loss.nats, all_reduce + loss.gap->nats);
  EXPECT_THAT(loss.basis, HasSubstr("all-reduce's law + "));
  EXPECT_THAT(loss.basis, HasSubstr(coverage_law(method::DistroUpdate::kSign)->runs()));
}

TEST(ExpectedLoss, OfClassesIsUnknown) {
  for (const char* method : {"allreduce", "distro", "diloco"}) {
    const ExpectedLoss loss =
        loss_of(candidate_of(method, {"data.records=labels", "model.architecture=roberta"}));
    EXPECT_FALSE(loss.nats) << method;
    EXPECT_EQ(loss.basis, "no law for classes; those known are of text");
  }
}

TEST(ExpectedLoss, OfAProgramsOwnModelIsUnknown) {
  for (const char* method : {"allreduce", "distro", "diloco"}) {
    const ExpectedLoss loss =
        loss_of(candidate_of(method, {"model.architecture=external",
                                      "external.tensors=[\"in 32x64\"]", "train.sequence=1"}));
    EXPECT_FALSE(loss.nats) << method;
    EXPECT_FALSE(loss.gap) << method;
    EXPECT_EQ(loss.basis, "no law for a program's own model");
  }
}

TEST(ExpectedLoss, OfDistroFallsWithKAndSteps) {
  const double few = *loss_of(candidate_of("distro", {"k=3"})).nats;
  EXPECT_LT(*loss_of(candidate_of("distro", {"k=24"})).nats, few);
  EXPECT_LT(*loss_of(candidate_of("distro", {"k=3", "train.steps=10000"})).nats, few);
}

TEST(ExpectedLoss, IsUnknownWithSettingsOfDistroThatNoRunHad) {
  for (const char* field : {"client=stateless", "update=sgd", "update=adamw", "transform=none",
                            "feedback=true", "overlap=1", "decay=0.9", "decay=1"}) {
    const ExpectedLoss loss = loss_of(candidate_of("distro", {field}));
    EXPECT_FALSE(loss.nats) << field;
    EXPECT_THAT(loss.basis, HasSubstr("no law for DisTrO with")) << field;
  }
  EXPECT_TRUE(loss_of(candidate_of("distro", {"overlap=1", "look_ahead=true"})).nats);
}

TEST(ExpectedLoss, OfDistroWithMuonIsByItsOwnRuns) {
  const double all_reduce = *loss_of(candidate_of("allreduce", {})).nats;
  const ExpectedLoss sign = loss_of(candidate_of("distro", {}));
  const ExpectedLoss muon = loss_of(candidate_of("distro", {"update=muon"}));
  ASSERT_TRUE(muon.gap);
  EXPECT_LT(muon.gap->nats, sign.gap->nats - 0.05);
  EXPECT_LT(muon.gap->range.low, 0) << "some end ahead of AdamW";
  EXPECT_GT(muon.gap->range.high, muon.gap->nats);
  EXPECT_DOUBLE_EQ(*muon.nats, all_reduce + muon.gap->nats);
  EXPECT_THAT(muon.basis, HasSubstr(coverage_law(method::DistroUpdate::kMuon)->runs()));
  EXPECT_THAT(sign.basis, testing::Not(HasSubstr("2026-11-25-distro-law.md")));
}

TEST(ExpectedLoss, IsUnknownOfMuonWhereNoRunHadIt) {
  const ExpectedLoss below = loss_of(candidate_of("distro", {"update=muon", "k=3"}));
  EXPECT_FALSE(below.nats);
  EXPECT_THAT(below.basis, HasSubstr("below the 0.92 of DisTrO's runs with update = muon"));
  for (const std::vector<std::string>& fields : {std::vector<std::string>{"muon_momentum=0.95"},
                                                 {"muon_scale=0.4"},
                                                 {"optim.method=muon"},
                                                 {"overlap=1", "look_ahead=true"}}) {
    std::vector<std::string> all = fields;
    all.push_back("update=muon");
    const ExpectedLoss loss = loss_of(candidate_of("distro", all));
    EXPECT_FALSE(loss.nats) << fields.front();
    EXPECT_THAT(loss.basis, HasSubstr("no law for DisTrO with")) << fields.front();
  }
}

TEST(ExpectedLoss, IsUnknownOfRunsShorterThanAnyByDistro) {
  const ExpectedLoss loss = loss_of(candidate_of("distro", {"k=1", "train.steps=100"}));
  EXPECT_FALSE(loss.nats);
  const double least = coverage_law(method::DistroUpdate::kSign)->least();
  EXPECT_THAT(loss.basis, HasSubstr(fmt::format(
                              "below the {:.2g} of DisTrO's runs with update = sign", least)));
}

TEST(ExpectedLoss, OfSparselocoIsKnownWhereItsPaperTriedIt) {
  const ExpectedLoss dense = loss_of(candidate_of("diloco", {"sync_every=30"}));
  const ExpectedLoss sparse = loss_of(candidate_of("sparseloco", {}));
  EXPECT_EQ(*sparse.nats, *dense.nats);
  EXPECT_THAT(sparse.basis, HasSubstr("as in SparseLoCo's paper"));
  for (const char* field : {"sync_every=512", "k=16"}) {
    const ExpectedLoss loss = loss_of(candidate_of("sparseloco", {field}));
    EXPECT_FALSE(loss.nats) << field;
    EXPECT_THAT(loss.basis, HasSubstr("at most 250 steps")) << field;
  }
  EXPECT_FALSE(loss_of(candidate_of("sparseloco", {}), 1e6).nats) << "a small model";
}

TEST(ExpectedLoss, IsUnknownOfCoarseWiresThatNobodyTried) {
  EXPECT_TRUE(loss_of(candidate_of("diloco", {"wire=fp4"})).nats);
  EXPECT_TRUE(loss_of(candidate_of("diloco", {"wire=int2", "error_feedback=true"})).nats);
  EXPECT_FALSE(loss_of(candidate_of("diloco", {"wire=int2"})).nats);
  EXPECT_TRUE(loss_of(candidate_of("allreduce", {"wire=fp32"})).nats);
  const ExpectedLoss gradients = loss_of(candidate_of("allreduce", {"wire=fp4"}));
  EXPECT_FALSE(gradients.nats);
  EXPECT_EQ(gradients.basis, "no run or paper has gradients in fp4");
}

TEST(ExpectedLoss, OneBitIsAtMostAsManyStepsFromTheNextExchangeAsInItsRuns) {
  const ExpectedLoss dense = loss_of(candidate_of("diloco", {"sync_every=64"}));
  const ExpectedLoss one =
      loss_of(candidate_of("diloco", {"sync_every=64", "wire=int1", "error_feedback=true"}));
  EXPECT_DOUBLE_EQ(*one.nats, *dense.nats + 0.04);
  EXPECT_THAT(one.basis, HasSubstr("+ 0.04 in one bit"));
  const ExpectedLoss longer =
      loss_of(candidate_of("diloco", {"sync_every=65", "wire=int1", "error_feedback=true"}));
  EXPECT_FALSE(longer.nats);
  EXPECT_EQ(longer.basis, "no run in one bit has more than 64 steps between exchanges");
}

TEST(ExpectedLoss, IsUnknownBeyondTheStepsOfTheLaw) {
  EXPECT_TRUE(loss_of(candidate_of("diloco", {"sync_every=1000"})).nats);
  const ExpectedLoss loss =
      loss_of(candidate_of("diloco", {"train.steps=5000", "sync_every=1024"}));
  EXPECT_FALSE(loss.nats);
  EXPECT_EQ(loss.basis, "local SGD's law ends at 1024 steps");
}

// Two workers were as far behind in runs of 0.2 M parameters as in the paper's smallest, more were
// much further.
TEST(ExpectedLoss, OfLateUpdatesIsKnownWhereRunsOrThePaperHadThem) {
  const auto late = [](const char* overlap, int64_t workers, const char* steps, double parameters) {
    const std::vector<std::string> fields = {fmt::format("overlap={}", overlap), steps,
                                             fmt::format("train.workers={}", workers)};
    return loss_of(candidate_of("diloco", fields), parameters);
  };
  EXPECT_TRUE(late("eager", 8, "sync_every=100", 35e6).nats);
  EXPECT_TRUE(late("eager", 2, "sync_every=30", 1e6).nats);
  EXPECT_TRUE(late("delayed", 8, "sync_every=30", 500e6).nats);
  const ExpectedLoss many = late("eager", 4, "sync_every=30", 1e6);
  EXPECT_FALSE(many.nats);
  EXPECT_THAT(many.basis, HasSubstr("eager updates of 4 workers are far behind in runs below the"));
  EXPECT_FALSE(late("delayed", 2, "sync_every=30", 1e6).nats);
  const ExpectedLoss rare = late("eager", 2, "sync_every=300", 1e9);
  EXPECT_FALSE(rare.nats);
  EXPECT_EQ(rare.basis, "the paper of eager updates has at most 100 steps");
  EXPECT_TRUE(late("eager", 8, "overlap_after=100", 500e6).nats);
  const ExpectedLoss later = late("delayed", 8, "overlap_after=100", 500e6);
  EXPECT_FALSE(later.nats);
  EXPECT_EQ(later.basis, "no run has delayed updates with overlap_after = 100");
}

TEST(ExpectedLoss, OfLateUpdatesIsHigherByWhatThePaperSaw) {
  const auto price = [](const char* overlap, double parameters, int64_t depth = 1) {
    std::vector<std::string> fields = {"sync_every=30", "train.workers=2"};
    const double in_time = *loss_of(candidate_of("diloco", fields), parameters).nats;
    fields.push_back(fmt::format("overlap={}", overlap));
    if (depth > 1) fields.push_back(fmt::format("depth={}", depth));
    return *loss_of(candidate_of("diloco", fields), parameters).nats - in_time;
  };
  EXPECT_EQ(price("inner", 1e9), 0);
  EXPECT_NEAR(price("eager", 1e6), 0.08, 1e-12);
  EXPECT_NEAR(price("eager", 500e6), 0.03, 1e-12);
  EXPECT_NEAR(price("eager", 500e6, 2), 0.07, 1e-12);
  EXPECT_NEAR(price("eager", std::sqrt(500e6 * 1e9)), 0.02, 1e-12);
  EXPECT_NEAR(price("eager", 1e12), 0.01, 1e-12);
  EXPECT_NEAR(price("delayed", 500e6), 0.34, 1e-12);
}

TEST(ExpectedLoss, IsKnownFromOwnRunsOfTheMethod) {
  MethodLaw law;
  law.method = "sparseloco";
  law.law = {1e3, 0.5};
  const ExpectedLoss loss = loss_of(candidate_of("sparseloco", {"sync_every=512"}), 1e5, {law});
  EXPECT_DOUBLE_EQ(*loss.nats, 0.1);
  EXPECT_EQ(loss.basis, "own runs");
}

}  // namespace
}  // namespace thinwire::plan
