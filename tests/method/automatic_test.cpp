#include "thinwire/method/automatic.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "thinwire/base/file.h"
#include "thinwire/config/automatic.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Fields = std::vector<std::string>;

OptimizerNumbers numbers(config::Recipe recipe) {
  return {config::number_of(recipe, "optim.lr").value(),
          config::number_of(recipe, "adamw.beta1").value(),
          config::number_of(recipe, "adamw.beta2").value(),
          config::number_of(recipe, "muon.momentum").value(),
          config::number_of(recipe, "schedule.warmup").value()};
}

OptimizerNumbers of(const Fields& fields) { return numbers(load_recipe({}, fields)); }

void expect_equal(const OptimizerNumbers& one, const OptimizerNumbers& other) {
  EXPECT_EQ(one.lr, other.lr);
  EXPECT_EQ(one.beta1, other.beta1);
  EXPECT_EQ(one.beta2, other.beta2);
  EXPECT_EQ(one.momentum, other.momentum);
  EXPECT_EQ(one.warmup, other.warmup);
}

const OptimizerNumbers kWithoutRule = {1e-3, 0.9, 0.95, 0.95, 0};

TEST(Automatic, ARecipeThatSaysNothingGetsTheRulesNumbers) {
  const Fields fields = {"train.steps=2500", "train.batch=8", "train.sequence=128",
                         "model.hidden=64"};
  expect_equal(of(fields), numbers_for({1024, 2500, 64}));
  Fields muon = fields;
  muon.emplace_back("optim.method=muon");
  expect_equal(of(muon), numbers_for({1024, 2500, 64}));
}

TEST(Automatic, NumbersThatAreGivenStay) {
  const OptimizerNumbers some = of({"optim.lr=0.5", "adamw.beta2=0.7"});
  EXPECT_EQ(some.lr, 0.5);
  EXPECT_EQ(some.beta2, 0.7);
  EXPECT_EQ(some.beta1, of({}).beta1);
}

TEST(Automatic, TheLastWordCounts) {
  const std::string file = testing::TempDir() + "automatic.toml";
  write_file(file,
             "[optim]\nlr = 0.5\n[adamw]\nbeta1 = \"auto\"\n[when.diloco]\noptim.lr = \"auto\"\n"
             "[when.streaming]\nadamw.beta1 = 0.7\n");
  const auto read = [&](const Fields& fields) { return numbers(load_recipe(file, fields)); };
  EXPECT_EQ(read({}).lr, 0.5);
  EXPECT_EQ(read({}).beta1, of({}).beta1);
  EXPECT_EQ(read({"optim.lr=auto"}).lr, of({}).lr);
  EXPECT_EQ(read({"optim.lr=auto", "optim.lr=0.25"}).lr, 0.25);
  EXPECT_EQ(read({"sync.method=diloco"}).lr, of({"sync.method=diloco"}).lr);
  EXPECT_EQ(read({"sync.method=diloco", "optim.lr=0.25"}).lr, 0.25);
  EXPECT_EQ(read({"sync.method=streaming"}).beta1, 0.7);
  EXPECT_EQ(read({"sync.method=streaming", "adamw.beta1=auto"}).beta1, of({}).beta1);
  // Where no rule knows a number, "auto" is the default and not the number before it.
  EXPECT_EQ(read({"optim.method=galore", "optim.lr=auto"}).lr, kWithoutRule.lr);
}

TEST(Automatic, ThePrintedRecipeHasTheNumbers) {
  const config::Recipe recipe = load_recipe({}, {});
  const std::string file = testing::TempDir() + "printed.toml";
  write_file(file, config::print_recipe(recipe));
  expect_equal(numbers(load_recipe(file, {})), of({}));
  // They are now given: another number of steps does not change them.
  expect_equal(numbers(load_recipe(file, Fields{"train.steps=99"})), of({}));
}

TEST(Automatic, WhatNoRuleKnowsKeepsItsDefault) {
  for (const Fields& fields :
       {Fields{"train.init=model"}, Fields{"train.init=model", "adapter.kind=lora"},
        Fields{"adapter.kind=relora"}, Fields{"data.records=prompts"},
        Fields{"model.architecture=roberta", "data.records=labels", "roberta.labels=2"},
        Fields{"model.architecture=external", "external.tensors=[\"matrix 4x4\"]",
               "train.sequence=1"},
        Fields{"optim.method=scale"},
        Fields{"sync.method=diloco", "sync.within=distro", "sync.clusters=2", "train.workers=4"}}) {
    SCOPED_TRACE(fields.front());
    expect_equal(of(fields), kWithoutRule);
    EXPECT_THAT(automatic_numbers(load_recipe({}, fields)), IsEmpty());
  }
}

TEST(Automatic, TokensAreThoseOfAllWorkersThatShareAStep) {
  for (const char* method : {"allreduce", "diloco", "streaming"}) {
    const Fields fields = {fmt::format("sync.method={}", method), "optim.method=muon",
                           "train.workers=4", "train.batch=16", "train.sequence=64"};
    const bool own = fields[0] != "sync.method=allreduce";
    expect_equal(of(fields), numbers_for({own ? 256.0 : 1024.0, 1000, 128, own}));
  }
}

TEST(Automatic, WorkersWithStepsOfTheirOwnAverageOverMoreOfThem) {
  const Fields alone = {"sync.method=streaming", "optim.method=muon", "train.steps=10000"};
  expect_equal(of(alone), numbers_for({2048, 10'000, 128}));
  const OptimizerNumbers shared = numbers_for({256, 10'000, 64});
  const OptimizerNumbers own = numbers_for({64, 10'000, 64, true});
  EXPECT_EQ(shared.lr, 2.5e-3);
  EXPECT_EQ(own.lr, 1.57e-3);
  EXPECT_EQ(own.beta1, 0.97);
  EXPECT_EQ(own.beta2, 0.9975);
  EXPECT_EQ(own.momentum, 0.98);
  EXPECT_EQ(shared.momentum, 0.95);
  EXPECT_EQ(own.warmup, 151);
  EXPECT_EQ(shared.warmup, 400);
}

TEST(Automatic, NotesSayWhatWasChosen) {
  EXPECT_THAT(automatic_numbers(load_recipe({}, Fields{"optim.lr=1", "adamw.beta2=0.5"})),
              ElementsAre(HasSubstr("adamw.beta1 auto: 0.9"), "schedule.warmup auto: 40"));
  EXPECT_EQ(automatic_numbers(load_recipe({}, {})).size(), 4);
}

TEST(Automatic, NumbersHaveFewDigits) {
  for (double tokens = 1; tokens < 1e9; tokens *= 3) {
    for (double steps = 1; steps < 1e9; steps *= 7) {
      const OptimizerNumbers chosen = numbers_for({tokens, steps, 96});
      EXPECT_EQ(chosen.lr, std::stod(fmt::format("{:.2e}", chosen.lr)));
      for (const double number : {chosen.beta1, chosen.beta2, chosen.momentum}) {
        EXPECT_EQ(number, std::stod(fmt::format("{:.4f}", number)));
        EXPECT_GT(number, 0);
      }
      EXPECT_LT(chosen.lr, 0.01);
      EXPECT_LT(chosen.beta2, 1);
    }
  }
}

// docs/recipes.md names the reports.
TEST(Automatic, AdamWsRatesAreThoseThatWereFoundBest) {
  struct Found {
    OptimizerRun run;
    double lr;
  };
  for (const auto& [run, lr] :
       {Found{{256, 1250, 64}, 7.9e-3}, Found{{256, 2500, 64}, 5.4e-3},
        Found{{256, 10'000, 64}, 2.3e-3}, Found{{256, 20'000, 64}, 1.5e-3},
        Found{{256, 41'000, 64}, 1.3e-3}, Found{{256, 41'000, 128}, 0.68e-3},
        Found{{2048, 10'000, 64}, 4.4e-3}, Found{{1024, 400, 64}, 10e-3},
        Found{{2048, 1200, 48}, 12e-3}, Found{{4096, 366, 128}, 5.1e-3},
        Found{{2048, 4000, 128}, 4e-3}}) {
    EXPECT_GE(numbers_for(run).lr, lr / 1.2) << run.tokens << " " << run.steps << " " << run.width;
    EXPECT_LE(numbers_for(run).lr, lr * 1.2) << run.tokens << " " << run.steps << " " << run.width;
  }
}

// Muon was tried with one or two rates in each case; this is the better one.
TEST(Automatic, MuonsRatesAreNoMoreThanTwiceFromThoseThatWereBetter) {
  EXPECT_NEAR(numbers_for({256, 5000, 64}).lr / 6e-3, 1, 0.5);
  EXPECT_NEAR(numbers_for({256, 10'000, 64}).lr / 3e-3, 1, 0.5);
  EXPECT_NEAR(numbers_for({256, 41'000, 64}).lr / 1.5e-3, 1, 0.5);
}

TEST(Automatic, BetasGrowWithTheRun) {
  EXPECT_EQ(numbers_for({2048, 400, 128}).beta1, 0.9);
  EXPECT_EQ(numbers_for({2048, 500, 128}).beta2, 0.95);
  EXPECT_EQ(numbers_for({256, 10'000, 64}).beta1, 0.96);
  EXPECT_EQ(numbers_for({256, 10'000, 64}).beta2, 0.99);
  EXPECT_EQ(numbers_for({256, 41'000, 64}).beta1, 0.98);
  EXPECT_EQ(numbers_for({256, 41'000, 64}).beta2, 0.9976);
}

TEST(Automatic, TheWarmupIsAShareOfTheRun) {
  const auto warmup = [](const Fields& fields) { return load_recipe({}, fields).schedule.warmup; };
  EXPECT_EQ(warmup({"train.steps=500"}), 20);
  EXPECT_EQ(warmup({"train.steps=24"}), 0);
  EXPECT_EQ(warmup({"train.steps=1M"}), 1000);
  EXPECT_EQ(warmup({"train.steps=500", "schedule.warmup=3"}), 3);
  EXPECT_EQ(warmup({"train.steps=500", "schedule.kind=wsd", "schedule.decay=100"}), 20);
  EXPECT_EQ(warmup({"train.steps=500", "schedule.kind=wsd", "schedule.decay=490"}), 10);
  EXPECT_EQ(warmup({"train.steps=500", "train.init=model"}), 0);
}

TEST(Automatic, DistrosRateGoesByItsUpdate) {
  const auto rate = [](Fields fields) {
    fields.insert(fields.end(), {"sync.method=distro", "train.steps=2500", "train.batch=8"});
    const config::Recipe recipe = load_recipe({}, fields);
    EXPECT_LE(automatic_numbers(recipe).size(), 2) << "it has no betas";
    return numbers(recipe).lr;
  };
  const double lr = numbers_for({1024, 2500, 128}).lr;
  EXPECT_NEAR(rate({"distro.k=3", "distro.decay=0.99"}), lr / 2, lr / 100);
  EXPECT_NEAR(rate({"distro.k=54", "distro.decay=0.99"}), lr * 0.75, lr / 100);
  EXPECT_NEAR(rate({"distro.k=384", "distro.decay=0.99"}), lr, lr / 100);
  EXPECT_NEAR(rate({"distro.k=54", "distro.chunk=128", "distro.decay=0.99"}), lr / 2, lr / 100)
      << "as k = 13.5";
  EXPECT_NEAR(rate({"distro.k=3", "distro.decay=0.999"}), lr * 1.8, lr / 100);
  EXPECT_NEAR(rate({"distro.k=32", "distro.decay=0.999"}), lr, lr / 100);
  EXPECT_NEAR(rate({"distro.k=384", "distro.decay=0.999"}), lr * 0.75, lr / 100);
  EXPECT_NEAR(rate({"distro.update=muon"}), lr * 1.75, lr / 100);
  EXPECT_EQ(rate({"distro.update=adamw"}), kWithoutRule.lr);
  EXPECT_EQ(rate({"distro.client=stateless"}), kWithoutRule.lr);
}

TEST(Automatic, OtherWordsAndOtherFieldsAreRefused) {
  const auto refusal = [](const std::string& field) {
    return tests::error_of([&] { load_recipe({}, Fields{field}); });
  };
  EXPECT_THAT(refusal("optim.lr=automatic"),
              HasSubstr("[optim] lr must be a number or \"auto\", got the text \"automatic\""));
  EXPECT_THAT(refusal("optim.weight_decay=auto"), HasSubstr("must be a number, got the text"));
  EXPECT_THAT(refusal("train.steps=auto"), HasSubstr("must be an integer, got the text"));
}

}  // namespace
}  // namespace thinwire::method
