#include "thinwire/plan/method_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/method/gradient_sums.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/sparseloco/sparseloco_spec.h"

namespace thinwire::plan {
namespace {

using testing::Contains;
using testing::HasSubstr;

const std::vector<std::string> kRecipe = {"model.vocab=512", "train.batch=64", "train.sequence=128",
                                          "train.steps=1000"};

Member machine(int64_t count, double flops, double up_bit_s) {
  Member member;
  member.name = "machine";
  member.count = count;
  member.flops = flops;
  member.link = {.up_bit_s = up_bit_s, .down_bit_s = 10 * up_bit_s, .delay_s = 0.01};
  return member;
}

// Making them takes most of the time of a property with many cases.
const Candidates& candidates_of(const std::vector<Member>& members) {
  static std::map<std::pair<int64_t, int64_t>, Candidates> made;
  const std::pair key(member_count(members), site_clusters(members));
  if (!made.contains(key)) made[key] = make_candidates("", kRecipe, key.first, key.second);
  return made[key];
}

std::vector<MethodCost> costs_of(const std::vector<Member>& members,
                                 const std::vector<MethodLaw>& laws = {}) {
  std::vector<MethodCost> costs;
  for (const Candidate& candidate : candidates_of(members).all) {
    costs.push_back(method_cost(candidate, members, laws, 0));
  }
  return costs;
}

const MethodCost& cost_of(const std::vector<MethodCost>& costs, const std::string& method,
                          const std::string& setting = "") {
  return *std::ranges::find_if(costs, [&](const MethodCost& cost) {
    return cost.method == method && cost.setting == setting;
  });
}

MethodLaw law(const std::string& method, double scale, double exponent, double per_step) {
  MethodLaw law;
  law.method = method;
  law.law = {scale, exponent};
  law.loss_per_local_step = per_step;
  return law;
}

MethodCost outcome(bool runs, double seconds, double loss) {
  MethodCost cost;
  cost.runs = runs;
  cost.seconds = seconds;
  cost.loss.nats = loss;
  return cost;
}

std::optional<Recommendation> recommended_of(std::span<const MethodCost> costs, double tolerance) {
  return recommend(costs, tolerance, least_loss(costs));
}

TEST(Candidates, AreEveryRegisteredMethodAndTheSimulatedSchedules) {
  const Candidates candidates = make_candidates("", kRecipe, 4);
  for (const method::Method* method : method::all_methods()) {
    EXPECT_TRUE(std::ranges::any_of(candidates.all, [&](const Candidate& one) {
      return one.method == method->name && !one.simulated && one.recipe.train.workers == 4;
    })) << method->name;
  }
  EXPECT_TRUE(std::ranges::any_of(candidates.all, [](const Candidate& one) {
    return one.method == "distro" && one.setting == "overlap = 1";
  }));
  EXPECT_TRUE(std::ranges::any_of(candidates.all, [](const Candidate& one) {
    return one.method == "Streaming DiLoCo" && one.simulated;
  }));
}

TEST(Candidates, SitesOfOneSizeMayTrainAsClusters) {
  std::vector<Member> members = {machine(2, 1e12, 10e6), machine(2, 1e12, 10e6)};
  EXPECT_EQ(site_clusters(members), 0);
  members[0].site = "a";
  members[1].site = "b";
  EXPECT_EQ(site_clusters(members), 2);
  const auto costs = costs_of(members);
  const MethodCost& apart = cost_of(costs, "diloco");
  const MethodCost& clusters = cost_of(costs, "diloco", "within = allreduce, clusters = 2");
  EXPECT_LT(clusters.line_seconds, 0.6 * apart.line_seconds) << "half the payloads on the lines";
  EXPECT_LT(clusters.step_seconds, apart.step_seconds);
  members[1].count = 3;  // method::Clusters of 5 members have 2 and 3
  EXPECT_EQ(site_clusters(members), 2);
  members[0].count = 4;
  EXPECT_EQ(site_clusters(members), 0);
  members[1].site = "a";
  EXPECT_EQ(site_clusters(members), 0) << "one site";
}

TEST(Candidates, DifferencesMayTravelInFourBits) {
  const auto costs = costs_of({machine(4, 1e12, 10e6)});
  EXPECT_LT(cost_of(costs, "diloco", "wire = fp4").sent_bytes,
            0.3 * cost_of(costs, "diloco").sent_bytes);
  EXPECT_TRUE(std::ranges::none_of(costs, [](const MethodCost& cost) {
    return cost.method == "allreduce" && !cost.setting.empty();
  })) << "gradients may not";
}

TEST(Candidates, DifferencesMayTravelInTwoBitsWithFeedback) {
  const auto costs = costs_of({machine(4, 1e12, 10e6)});
  EXPECT_LT(cost_of(costs, "diloco", "wire = int2, error_feedback = true").sent_bytes,
            0.15 * cost_of(costs, "diloco").sent_bytes);
}

TEST(Candidates, VaryWhatDistroSends) {
  const auto costs = costs_of({machine(4, 1e12, 10e6)});
  const MethodCost& few = cost_of(costs, "distro", "k = 8");
  const MethodCost& many = cost_of(costs, "distro", "k = 512");
  EXPECT_LT(few.sent_bytes, many.sent_bytes);
  EXPECT_GT(*few.loss.nats, *many.loss.nats);
  EXPECT_TRUE(cost_of(costs, "distro", "look_ahead = true, overlap = 1").loss.nats);
  EXPECT_FALSE(cost_of(costs, "distro", "overlap = 1").loss.nats);
}

TEST(Candidates, AMethodThatTheRecipeRulesOutIsLeftOutWithTheReason) {
  auto overrides = kRecipe;
  overrides.emplace_back("distro.k=5000");
  const Candidates candidates = make_candidates("", overrides, 4);
  ASSERT_EQ(candidates.left_out.size(), 1U);
  EXPECT_EQ(candidates.left_out[0].method, "distro");
  EXPECT_THAT(candidates.left_out[0].reason, HasSubstr("k must be <="));
}

// Variations give fields by their present names, which must not count as given twice.
TEST(Candidates, OverridesMayUseOldNames) {
  auto overrides = kRecipe;
  overrides.insert(overrides.end(), {"train.engine=local", "sparse.sync_every=7", "sparse.k=5"});
  int varied = 0;
  for (const Candidate& candidate : make_candidates("", overrides, 4).all) {
    if (candidate.method != "sparseloco") continue;
    varied += candidate.setting.starts_with("sync_every");
    EXPECT_EQ(candidate.recipe.section<method::SparseLocoOptions>("sparseloco").k, 5);
  }
  EXPECT_EQ(varied, 3);
}

TEST(MethodCost, AnAllReduceBeginsDuringTheBackwardPass) {
  const std::vector<Member> members = {machine(4, 1e12, 10e6)};
  const auto costs = costs_of(members);
  const MethodCost& cost = cost_of(costs, "allreduce");
  config::Recipe recipe = method::load_recipe("", kRecipe);
  const PlannedModel model = planned_model(recipe);
  const double compute = 16 * 128 * model.flops_per_token / 1e12;
  EXPECT_DOUBLE_EQ(cost.compute_seconds, compute);
  const method::Traffic traffic =
      method::find_method("allreduce").traffic(recipe, model.tensors, 4);
  EXPECT_DOUBLE_EQ(cost.sent_bytes, traffic.sent_bytes);
  EXPECT_DOUBLE_EQ(cost.received_bytes, traffic.received_bytes);
  const double line = links::transfer_seconds(members[0].link, traffic.sent_bytes,
                                              traffic.received_bytes, traffic.round_trips);
  // The exchange begins with the head's gradient, and its line is never free before its end.
  const double first = method::exchange_parts(recipe, model.tensors).all.front().begins;
  EXPECT_LT(first, 0.5);
  EXPECT_NEAR(cost.step_seconds, first * compute + line, 1e-9 * line);
  EXPECT_NEAR(cost.utilization, compute / (first * compute + line), 1e-9);
  EXPECT_DOUBLE_EQ(cost.seconds, 1000 * cost.step_seconds);
  EXPECT_EQ(cost.bottleneck, "machine's line up");
}

TEST(MethodCost, OverlapHidesAnExchangeBehindComputation) {
  const auto costs = costs_of({machine(4, 1e9, 1e5)});
  const MethodCost& plain = cost_of(costs, "distro");
  const MethodCost& overlapped = cost_of(costs, "distro", "overlap = 1");
  EXPECT_NEAR(plain.step_seconds, plain.compute_seconds + plain.line_seconds,
              1e-9 * plain.step_seconds);
  EXPECT_LT(plain.utilization, 0.99);
  EXPECT_GT(overlapped.utilization, 0.999) << "only the last exchange is waited for";
  EXPECT_LT(overlapped.utilization, 1);
  EXPECT_EQ(overlapped.bottleneck, "machine computes");
}

TEST(MethodCost, MethodsOfOuterStepsHideWhatTheyOverlap) {
  const auto costs = costs_of({machine(4, 1e12, 100e6)});
  const MethodCost& diloco = cost_of(costs, "diloco");
  EXPECT_EQ(diloco.sync_every, 100);
  EXPECT_NEAR(diloco.utilization,
              100 * diloco.compute_seconds / (100 * diloco.compute_seconds + diloco.line_seconds),
              1e-12);
  const MethodCost& eager = cost_of(costs, "diloco", "overlap = eager");
  EXPECT_NEAR(eager.seconds, 1000 * eager.compute_seconds + eager.line_seconds, 1e-9);
  const MethodCost& streaming = cost_of(costs, "streaming");  // two fragments
  EXPECT_LT(streaming.line_seconds, diloco.line_seconds);
  EXPECT_GT(streaming.utilization, cost_of(costs, "streaming", "overlap = none").utilization);
  EXPECT_LT(streaming.utilization, 1);
  EXPECT_GT(cost_of(costs, "diloco", "sync_every = 32").sent_bytes, diloco.sent_bytes);
  EXPECT_LT(cost_of(costs, "diloco", "sync_every = 512").sent_bytes, diloco.sent_bytes);
}

TEST(MethodCost, TheSlowestMemberSetsThePace) {
  std::vector<Member> members = {machine(3, 1e12, 10e6), machine(1, 1e10, 10e6)};
  members[1].name = "old";
  const auto costs = costs_of(members);
  const MethodCost& cost = cost_of(costs, "distro");
  EXPECT_DOUBLE_EQ(cost.compute_seconds,
                   100 * cost_of(costs_of({machine(4, 1e12, 10e6)}), "distro").compute_seconds);
  EXPECT_EQ(cost.bottleneck, "old computes");
}

TEST(MethodCost, BillsPowerAndPriceOfAllMembers) {
  std::vector<Member> members = {machine(4, 1e9, 10e6)};
  members[0].watts = 500;
  members[0].price_per_hour = 2;
  const auto costs = costs_of(members);
  const MethodCost& cost = cost_of(costs, "allreduce");
  EXPECT_NEAR(cost.kilowatt_hours, 2 * cost.seconds / 3600, 1e-9);
  EXPECT_NEAR(cost.price, 8 * cost.seconds / 3600, 1e-9);
}

// Of 16 rows the fast one takes 12 and each slow one 2, all in the same time.
TEST(MethodCost, SharesBySpeedGiveTheFastMoreRows) {
  const std::vector<Member> members = {machine(1, 6e12, 1e9), machine(2, 1e12, 1e9)};
  const auto cost = [&](const char* shares) {
    auto overrides = kRecipe;
    overrides.insert(overrides.end(), {"sync.method=diloco", "train.batch=16", shares});
    const std::vector<Candidate> all = make_candidates("", overrides, 3).all;
    const auto diloco = std::ranges::find(all, "diloco", &Candidate::method);
    return method_cost(*diloco, members, {}, 0);
  };
  const MethodCost equal = cost("sync.shares=equal"), by_speed = cost("sync.shares=speed");
  EXPECT_NEAR(equal.compute_seconds / by_speed.compute_seconds, 6.0 / 2, 1e-9);
  EXPECT_GT(by_speed.utilization, equal.utilization);
}

TEST(MethodCost, WhoTakesFewRowsNeedsMemoryForTheseOnly) {
  std::vector<Member> members = {machine(1, 6e12, 1e9), machine(2, 1e12, 1e9)};
  auto overrides = kRecipe;
  overrides.insert(overrides.end(), {"sync.method=diloco", "train.batch=16", "sync.shares=speed"});
  const std::vector<Candidate> all = make_candidates("", overrides, 3).all;
  const auto diloco = std::ranges::find(all, "diloco", &Candidate::method);
  const MethodCost most = method_cost(*diloco, members, {}, 0);
  members[1].memory_bytes = 0.9 * most.memory.total();
  const MethodCost cost = method_cost(*diloco, members, {}, 0);
  EXPECT_EQ(cost.too_small, "");
  EXPECT_EQ(cost.microbatch, most.microbatch);
}

TEST(MethodCost, UnequalMembersAreOfferedSharesBySpeed) {
  const auto offered = [](bool unequal) {
    const std::vector<Candidate> all = make_candidates("", kRecipe, 4, 0, unequal).all;
    return std::ranges::count(all, "shares = speed", &Candidate::setting);
  };
  EXPECT_EQ(offered(false), 0);
  EXPECT_GT(offered(true), 0);
}

TEST(MethodCost, TheLossOfWhatBeginsWithTrainedWeightsIsUnknown) {
  std::vector<Candidate> all = make_candidates("", kRecipe, 4).all;
  all[0].recipe.train.init = "a/model";
  const MethodCost cost = method_cost(all[0], std::vector{machine(4, 1e12, 10e6)}, {}, 0);
  EXPECT_FALSE(cost.loss.nats);
  EXPECT_THAT(cost.loss.basis, HasSubstr("train.init"));
}

TEST(MethodCost, TakesFewerRowsAtOnceWhereMemoryIsShort) {
  std::vector<Member> members = {machine(4, 1e12, 10e6)};
  const auto roomy = costs_of(members);
  const MethodCost& whole = cost_of(roomy, "allreduce");
  EXPECT_EQ(whole.microbatch, 0);
  members[0].memory_bytes = 0.6 * whole.memory.total();
  const auto tight = costs_of(members);
  const MethodCost& split = cost_of(tight, "allreduce");
  EXPECT_GT(split.microbatch, 0);
  EXPECT_EQ(split.too_small, "");
  EXPECT_LE(split.memory.total(), members[0].memory_bytes);
  members[0].memory_bytes = 1e3;
  const auto hopeless = costs_of(members);
  EXPECT_EQ(cost_of(hopeless, "allreduce").too_small, "machine");
  EXPECT_FALSE(recommended_of(hopeless, 0.05));
}

TEST(MethodCost, OwnLawsReplaceThePapers) {
  const auto costs = costs_of({machine(4, 1e12, 10e6)}, {law("distro", 1e3, 0.5, 0)});
  config::Recipe recipe = method::load_recipe("", kRecipe);
  const MethodCost& cost = cost_of(costs, "distro");
  EXPECT_DOUBLE_EQ(*cost.loss.nats, std::sqrt(1e3 / planned_model(recipe).non_embedding));
  EXPECT_EQ(cost.loss.basis, "own runs");
  EXPECT_EQ(cost_of(costs, "allreduce").loss.basis, "all-reduce's law");
  EXPECT_EQ(cost_of(costs, "Data-Parallel").loss.basis, "all-reduce's law");
  EXPECT_EQ(cost_of(costs, "Streaming DiLoCo").loss.basis, "local SGD's law");
}

TEST(MethodCost, LateUpdatesCostTheLossThatThePaperSaw) {
  const auto costs = costs_of({machine(2, 1e12, 10e6)});
  const MethodCost& eager = cost_of(costs, "diloco", "overlap = eager");
  EXPECT_NEAR(*eager.loss.nats, *cost_of(costs, "diloco").loss.nats + 0.08, 1e-12);
  EXPECT_EQ(eager.loss.basis, "local SGD's law + eager");
  EXPECT_EQ(cost_of(costs, "1-outer-step FP4, H 30").loss.basis, "local SGD's law + eager");
}

TEST(Recommend, IsTheFastestThatRunsWithinTheTolerance) {
  const std::vector<MethodCost> costs = {outcome(true, 100, 2.0), outcome(true, 10, 2.04),
                                         outcome(true, 5, 2.2), outcome(false, 1, 1.9)};
  EXPECT_EQ(recommended_of(costs, 0.05)->index, 1U);
  EXPECT_EQ(recommended_of(costs, 0.01)->index, 0U);
  EXPECT_EQ(recommended_of(costs, 1)->index, 2U);
  EXPECT_THAT(recommended_of(costs, 0.05)->reasons, Contains(HasSubstr("0.040 above")));
}

TEST(Recommend, CountsALossThatOtherMembersCouldReach) {
  const std::vector<MethodCost> costs = {outcome(true, 100, 2.0), outcome(true, 10, 2.04)};
  EXPECT_EQ(recommend(costs, 0.05, 1.98)->index, 0U);
  EXPECT_FALSE(recommend(costs, 0.05, 1.9));
}

TEST(Recommend, NeverAMethodWhoseLossIsUnknown) {
  std::vector<MethodCost> costs = {outcome(true, 100, 2.0), outcome(true, 10, 0)};
  costs[0].method = "allreduce";
  costs[1].method = "sparseloco";
  costs[1].loss = {.nats = {}, .basis = "nobody tried"};
  const auto recommended = recommended_of(costs, 0.05);
  EXPECT_EQ(recommended->index, 0U);
  EXPECT_THAT(recommended->reasons,
              Contains("sparseloco takes 10.0 s, 10 times faster, but its loss is unknown "
                       "(nobody tried)"));
  EXPECT_FALSE(recommended_of(std::span(costs).subspan(1), 1000));
}

// Own runs that show local SGD to be far behind, and a run long enough for DisTrO.
TEST(Recommend, OfDistroNamesTheRunsItRestsOn) {
  auto overrides = kRecipe;
  overrides.insert(overrides.end(), {"train.steps=20000", "distro.k=24"});
  const std::vector<Member> members = {machine(4, 1e12, 10e6)};
  std::vector<MethodLaw> laws;
  for (const char* method : {"local_sgd", "diloco", "streaming"}) {
    laws.push_back(law(method, 3.15e14, 0.072, 0.1));
  }
  std::vector<MethodCost> costs;
  for (const Candidate& candidate : make_candidates("", overrides, 4).all) {
    costs.push_back(method_cost(candidate, members, laws, 0));
  }
  const auto recommended = recommended_of(costs, 0.2);
  ASSERT_TRUE(recommended);
  EXPECT_EQ(costs[recommended->index].method, "distro");
  EXPECT_THAT(recommended->reasons,
              Contains(HasSubstr(coverage_law(method::DistroUpdate::kSign)->runs())));
  EXPECT_EQ(costs[recommended_of(costs, 0.01)->index].method, "allreduce");
}

TEST(Recommend, ComparesTimesTruly) {
  const auto reasons = [](double seconds, double nats) {
    MethodCost best, other;
    best.method = "allreduce";
    other.method = "distro";
    best.runs = other.runs = true;
    best.seconds = 473;
    best.loss.nats = 3;
    other.seconds = seconds;
    other.loss = {.nats = nats, .basis = "own runs"};
    return recommended_of(std::vector<MethodCost>{best, other}, 0.05)->reasons;
  };
  EXPECT_THAT(reasons(127, 3.5), Contains("distro takes 2 min 07 s, 3.72 times faster, but is "
                                          "expected to end 0.500 higher (own runs)"));
  EXPECT_THAT(reasons(460, 3.5), Contains("distro takes about as long"));
  EXPECT_THAT(reasons(490, 3), Contains("distro takes about as long"));
  EXPECT_THAT(reasons(946, 3), Contains("distro takes 15 min 46 s, 2 times as long"));
}

TEST(Members, OfASiteShareItsLine) {
  std::vector<Member> members = {machine(2, 1e12, 10e6), machine(2, 1e12, 10e6)};
  const Exchange exchange{1e6, 3e6, 1};
  const double alone = slowest_line(members, exchange).seconds;
  EXPECT_DOUBLE_EQ(alone, 0.8 + 0.01);
  members[0].site = "lab";
  const LineTime shared = slowest_line(members, exchange);
  EXPECT_DOUBLE_EQ(shared.seconds, 1.6 + 0.01);  // two payloads up
  EXPECT_EQ(shared.member, 0U);
  EXPECT_TRUE(shared.up);
  members[1].site = "lab";
  EXPECT_EQ(slowest_line(members, exchange).seconds, 0);
  const double stored = slowest_line(members, {1e6, 3e6, 1, true}).seconds;
  EXPECT_DOUBLE_EQ(stored, 4 * (0.8 + 0.24) + 6 * 0.01);  // a server is elsewhere
}

TEST(MethodCost, OnManyHostsContributionsAreStoredFirstAndOneSumOrAllOthersComeDown) {
  Member member = machine(4, 1e12, 10e6);
  member.link.delay_s = 0;
  const std::vector<Member> members = {member};
  const auto candidates = make_candidates("", kRecipe, 4).all;
  Candidate candidate = *std::ranges::find(candidates, "allreduce", &Candidate::method);
  candidate.hosts = true;
  for (const auto& [sums, buffers] :
       {std::pair(config::Sums::kCoordinator, 1), std::pair(config::Sums::kMembers, 3)}) {
    candidate.recipe.sync.sums = sums;
    const MethodCost cost = method_cost(candidate, members, {}, 0);
    EXPECT_DOUBLE_EQ(cost.received_bytes, buffers * cost.sent_bytes);
    const double seconds = 8 * (cost.sent_bytes / 10e6 + cost.received_bytes / 100e6) / 0.95;
    EXPECT_NEAR(cost.line_seconds, seconds, 1e-9);
    EXPECT_NEAR(cost.step_seconds, cost.compute_seconds + seconds, 1e-9);
  }
}

TEST(Members, SpeedIsGivenOnce) {
  MemberSection section;
  section.name = "box";
  const auto message = [&] {
    try {
      resolve_members({&section, 1}, 1e6);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(), HasSubstr("box: exactly one of flops"));
  section.tokens_per_second = 5;
  EXPECT_EQ(resolve_members({&section, 1}, 1e6)[0].flops, 5e6);
  section.flops = 1;
  EXPECT_THAT(message(), HasSubstr("exactly one"));
}

TEST(Members, AGpuIsKnownByItsName) {
  MemberSection section;
  section.gpu = "rtx 4090";
  EXPECT_NEAR(resolve_members({&section, 1}, 1e6)[0].flops, kGpuEfficiency * 165.2e12, 1);
  EXPECT_EQ(gpu_flops("RTX4090"), gpu_flops("RTX 4090"));
  EXPECT_LT(gpu_flops("RTX 3090"), gpu_flops("RTX 3090 Ti"));
  try {
    gpu_flops("RTX 4091");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean RTX 4090?"));
  }
}

RC_GTEST_PROP(MethodCostProperty, MoreBandwidthIsNeverSlowerAndUtilizationStaysWithinOne, ()) {
  const auto number = [](int low, int high) {
    return std::pow(10.0, *rc::gen::inRange(low * 10, high * 10) / 10.0);
  };
  std::vector<Member> members = {machine(3, number(8, 15), number(3, 10)),
                                 machine(5, number(8, 15), number(3, 10))};
  if (*rc::gen::arbitrary<bool>()) members[1].site = "lab";
  const auto slow = costs_of(members);
  for (Member& member : members) {
    member.link.up_bit_s *= 3;
    member.link.down_bit_s *= 2;
  }
  const auto fast = costs_of(members);
  for (size_t i = 0; i < slow.size(); ++i) {
    RC_ASSERT(fast[i].step_seconds <= slow[i].step_seconds * (1 + 1e-9));
    RC_ASSERT(slow[i].utilization >= 0 && slow[i].utilization <= 1 + 1e-12);
  }
}

TEST(MethodCostProperty, MoreLocalStepsAreNeverMoreBytes) {
  const std::vector<Member> members = {machine(4, 1e12, 10e6)};
  double before = std::numeric_limits<double>::infinity();
  for (const char* steps : {"1", "2", "7", "100", "1000"}) {
    auto overrides = kRecipe;
    overrides.emplace_back("distro.client=stateless");
    overrides.push_back(std::string("distro.local_steps=") + steps);
    const auto candidates = make_candidates("", overrides, 4).all;
    const auto plain = std::ranges::find(candidates, "distro", &Candidate::method);
    const MethodCost cost = method_cost(*plain, members, {}, 0);
    EXPECT_LT(cost.sent_bytes, before) << steps;
    before = cost.sent_bytes;
  }
}

}  // namespace
}  // namespace thinwire::plan
