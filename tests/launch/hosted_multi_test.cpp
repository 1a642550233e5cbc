// What every method promises where its members are on many hosts: the bits of a run in one process,
// for those that are there from the start and for those that join.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/launch/hosted_run.h"
#include "tests/launch/method_variants.h"
#include "tests/tiny_run.h"
#include "thinwire/base/digest.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

membership::Options patient() {
  membership::Options options;
  options.timeout_s = 60;  // nobody is lost, however slow this machine is at the moment
  return options;
}

class HostedContract : public testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_tiny_corpus(folder_);
  }
  config::Recipe recipe(std::vector<std::string> fields = {}) const {
    fields.insert(fields.begin(), {"eval.every=0", "sync.timeout_s=60"});
    return variant_recipe(GetParam(), folder_, fields, 2);
  }
  // Empty if members on many hosts can train it.
  static std::string why_not(const config::Recipe& recipe) {
    try {
      member::check_hosted(recipe);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_P(HostedContract, GivesTheBitsOfARunInOneProcess) {
  const config::Recipe used = recipe();
  if (const std::string why = why_not(used); !why.empty()) GTEST_SKIP() << why;
  const TrainResult expected = train(used, {});
  HostedRun run(used, folder_, patient());
  for (const int number : {0, 1}) run.start(number);
  for (const int number : {0, 1}) {
    const member::MemberResult result = run.wait(number);
    EXPECT_EQ(result.outcome, member::MemberOutcome::kFinished);
    EXPECT_EQ(result.steps, used.train.steps);
    EXPECT_EQ(to_hex(result.digest), expected.summary.digest) << "member " << number;
  }
  run.wait_until_over();
  EXPECT_EQ(to_hex(*run.host().final_digest()), expected.summary.digest);
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedContract, testing::ValuesIn(all_variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
