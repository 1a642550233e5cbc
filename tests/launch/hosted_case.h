// A test of a run on many hosts, for one variant of a method.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/hosted_run.h"
#include "tests/launch/method_variants.h"
#include "tests/tiny_run.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/error.h"
#include "thinwire/method/combinations.h"

namespace thinwire::launch {

class HostedCase : public testing::TestWithParam<Variant> {
 protected:
  // Seconds after which a round closes without those who do not contribute. A member that is silent
  // for a twentieth of it may be left out, and one that is for a quarter is lost.
  static constexpr double kPatient = 600;  // nobody is, however slow this machine is now
  static constexpr double kHasty = 8;

  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }
  // Prepares the run; false if members on many hosts cannot train it, as docs/combinations.md says:
  // its test fails if anything is newly refused.
  bool prepare(int64_t steps, double timeout_s = kPatient, int workers = 2,
               std::vector<std::string> fields = {}) {
    fields.insert(fields.end(), {"eval.every=0", "sync.timeout_s=" + std::to_string(timeout_s),
                                 "train.steps=" + std::to_string(steps)});
    const std::string method(GetParam().method->name);
    if (GetParam().method->local_updates) fields.push_back(method + ".sync_every=6");
    recipe_ = variant_recipe(GetParam(), folder_, fields, workers);
    options_.timeout_s = timeout_s;
    options_.snapshot_every = 5;
    try {
      method::check_command(recipe_, method::Command::kServe);
    } catch (const UsageError& error) {
      why_not_ = error.what();
      return false;
    }
    member::check_hosted(recipe_);  // refuses nothing else
    return true;
  }
  // These members have finished the run, all with the same weights.
  void expect_agreement(HostedRun& run, const std::vector<int>& members) const {
    std::vector<uint64_t> digests;
    for (const int number : members) {
      const member::MemberResult result = run.wait(number);
      EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished)
          << "member " << number << ": " << result.why;
      EXPECT_EQ(result.steps, recipe_.train.steps);
      digests.push_back(result.digest);
    }
    for (const uint64_t digest : digests) EXPECT_EQ(to_hex(digest), to_hex(digests.front()));
  }
  static size_t count(const membership::State& state, membership::Phase phase) {
    return static_cast<size_t>(
        std::ranges::count(state.members, phase, &membership::Member::phase));
  }
  static auto begun() {
    return [](const membership::State& state) { return state.next_round > 0; };
  }
  static auto has_members(size_t number) {
    return [number](const membership::State& state) { return state.members.size() == number; };
  }
  // A member joins while the two that the run begins with are held at an early step.
  void expect_agreement_with_a_joiner() {
    HostedRun run(recipe_, folder_, options_);
    run.hold_at(8);
    for (const int number : {0, 1}) run.start(number);
    run.wait_until(begun());
    run.start(2);
    run.wait_until(has_members(3));
    run.release();
    expect_agreement(run, {0, 1, 2});
  }

  fs::path folder_;
  config::Recipe recipe_;
  membership::Options options_;
  std::string why_not_;
};

// The variants with these names.
inline std::vector<Variant> variants_named(const std::vector<std::string>& names) {
  std::vector<Variant> variants = all_variants();
  std::erase_if(variants, [&](const Variant& variant) {
    return std::ranges::find(names, variant.name) == names.end();
  });
  return variants;
}

}  // namespace thinwire::launch
