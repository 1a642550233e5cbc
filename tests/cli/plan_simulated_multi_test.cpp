// The planner's time and utilization of a run, compared with what the run itself measured over
// simulated links.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/tiny_run.h"
#include "thinwire/launch/train.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {
namespace {

constexpr double kTolerance = 0.1;
constexpr int kMembers = 4;
constexpr int kSteps = 26;  // the last round is shorter than the others

struct Way {
  std::string method;
  std::string name;
  std::vector<std::string> overrides;
};

// Every registered method with its defaults, and variations of when its bytes are sent.
std::vector<Way> ways() {
  std::vector<Way> ways;
  for (const method::Method* method : method::all_methods()) {
    ways.push_back({std::string(method->name), std::string(method->name), {}});
  }
  const auto add = [&](const std::string& method, const std::string& name,
                       std::vector<std::string> fields) {
    for (std::string& field : fields) {
      const bool complete = field.find('.') < field.find('=');
      if (!complete) field = fmt::format("{}.{}", method, field);
    }
    ways.push_back({method, fmt::format("{}_{}", method, name), std::move(fields)});
  };
  add("allreduce", "whole", {"hide=false"});
  add("allreduce", "fp8", {"wire=fp8"});
  add("allreduce", "layer", {"train.update=layer", "optim.clip=0"});
  add("distro", "overlap", {"overlap=1"});
  add("distro", "local_steps", {"client=stateless", "local_steps=5"});
  add("distro", "local_steps_overlap", {"client=stateless", "local_steps=5", "overlap=1"});
  add("local_sgd", "each_step", {"sync_every=1"});
  add("diloco", "none", {"sync_every=6"});
  add("diloco", "inner", {"sync_every=6", "overlap=inner", "overlap_steps=3"});
  add("diloco", "delayed", {"sync_every=6", "overlap=delayed"});
  add("diloco", "eager", {"sync_every=6", "overlap=eager"});
  add("diloco", "eager_far", {"sync_every=5", "overlap=eager", "depth=2"});
  add("diloco", "eager_after", {"sync_every=5", "overlap=eager", "overlap_after=2"});
  add("streaming", "none", {"fragment_layers=1", "sync_every=6", "overlap=none"});
  add("streaming", "inner", {"fragment_layers=1", "sync_every=6", "overlap_steps=2"});
  add("streaming", "inner_after",
      {"fragment_layers=1", "sync_every=6", "overlap_steps=2", "overlap_after=2"});
  add("streaming", "eager", {"fragment_layers=1", "sync_every=6", "overlap=eager"});
  add("streaming", "slices", {"slices=3", "sync_every=6", "overlap=none", "wire=int1"});
  add("sparseloco", "rounds", {"sync_every=6"});
  for (const char* method : {"diloco", "streaming", "sparseloco"}) {
    for (const char* within : {"allreduce", "distro"}) {
      add(method, std::string("within_") + within,
          {"sync_every=6", std::string("sync.within=") + within, "sync.clusters=2"});
    }
  }
  add("diloco", "eager_within",
      {"sync_every=6", "overlap=eager", "sync.within=allreduce", "sync.clusters=3"});
  add("diloco", "layer_within",
      {"sync_every=6", "sync.within=allreduce", "sync.clusters=2", "train.update=layer",
       "optim.clip=0"});
  return ways;
}

// Links of the members and their seconds per step.
struct Setting {
  std::string name;
  std::vector<links::Member> members;
};

// A sum of the model's gradients in fp32 takes 8 s at kRate in both directions.
constexpr double kRate = 300e3;

std::vector<Setting> settings() {
  const links::Member one{{kRate, kRate, 0.1, 0}, 1};
  std::vector<Setting> settings = {{"equal", std::vector(kMembers, one)},
                                   {"thin", std::vector(kMembers, one)},
                                   {"wide", std::vector(kMembers, one)},
                                   {"far", std::vector(kMembers, one)},
                                   {"unlike", std::vector(kMembers, one)}};
  for (links::Member& member : settings[1].members) member.link.up_bit_s = kRate / 30;
  for (links::Member& member : settings[2].members) member.link.up_bit_s = 10 * kRate;
  for (links::Member& member : settings[3].members) member.link.delay_s = 3;
  std::vector<links::Member>& unlike = settings[4].members;
  unlike[0].step_s = 2.5;
  unlike[1].link.up_bit_s = kRate / 8;
  unlike[2].link.down_bit_s = kRate / 10;
  unlike[3] = {{10 * kRate, 10 * kRate, 1, 0}, 0.3};
  return settings;
}

class PlanSimulated : public testing::TestWithParam<Way> {
 protected:
  static void SetUpTestSuite() {
    folder_ = fs::path(testing::TempDir()) / "thinwire" / "PlanSimulated";
    fs::remove_all(folder_);
    prepare_tiny_corpus(folder_);
  }

  static config::Recipe recipe(const Setting& setting) {
    const std::string& name = GetParam().name;
    std::vector<std::string> overrides = {
        "model.vocab=258",
        "train.batch=4",
        fmt::format("train.steps={}", kSteps),
        fmt::format("train.workers={}", kMembers),
        "eval.rows=4",
        "sync.method=" + GetParam().method,
        "run.dir=" + (folder_ / (name + "-" + setting.name)).string()};
    for (const std::string& one : GetParam().overrides) overrides.push_back(one);
    config::Recipe recipe = tiny_recipe(folder_, overrides);
    for (size_t i = 0; i < setting.members.size(); ++i) {
      const links::Member& member = setting.members[i];
      const auto set = [&](const char* field, double value) {
        recipe.links.members.push_back(fmt::format("{}.{}={}", i, field, value));
      };
      set("up_bit_s", member.link.up_bit_s);
      set("down_bit_s", member.link.down_bit_s);
      set("delay_s", member.link.delay_s);
      set("step_s", member.step_s);
    }
    return recipe;
  }

  static MethodCost planned(const Setting& setting, const config::Recipe& recipe) {
    config::Recipe known = recipe;
    const int64_t rows = recipe.train.batch / recipe.train.workers;
    const double flops =
        planned_model(known).flops_per_token * static_cast<double>(rows * recipe.train.sequence);
    std::vector<Member> members;
    for (const links::Member& member : setting.members) {
      members.push_back({"member", "", 1, flops / member.step_s, 0, member.link, 0, 0});
    }
    return method_cost({recipe.sync.method, "", recipe, {}}, members, {}, 0);
  }

  static fs::path folder_;
};

fs::path PlanSimulated::folder_;

TEST_P(PlanSimulated, TimeAndUtilizationAreThoseOfTheRun) {
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(setting.name);
    const config::Recipe recipe = PlanSimulated::recipe(setting);
    const events::Summary run = launch::train(recipe, {}).summary;
    const MethodCost plan = planned(setting, recipe);
    EXPECT_NEAR(plan.step_seconds / (run.seconds_over_links / kSteps), 1, kTolerance);
    EXPECT_NEAR(plan.utilization / run.compute_utilization, 1, kTolerance);
    fmt::print("{:8} planned {:7.3f} s a step, {:.3f} of it computing; run {:7.3f} s, {:.3f}\n",
               setting.name, plan.step_seconds, plan.utilization, run.seconds_over_links / kSteps,
               run.compute_utilization);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, PlanSimulated, testing::ValuesIn(ways()),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace thinwire::plan
