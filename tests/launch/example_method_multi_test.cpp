// The method of docs/examples/signsgd.patch, which is not part of the tree, in a run of many hosts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/launch/hosted_case.h"
#include "thinwire/base/digest.h"
#include "thinwire/launch/train.h"
#include "thinwire/method/registry.h"
#include "thinwire/methods/signsgd/signsgd.h"
#include "thinwire/methods/signsgd/signsgd_spec.h"

namespace thinwire::launch {
namespace {

using testing::HasSubstr;

class ExampleMethod : public HostedCase {
 protected:
  void SetUp() override {
    if (std::ranges::count(method::all_methods(), "signsgd", &method::Method::name) == 0) {
      method::add_method(method::kSignSgd);
      sync::add_algorithm(sync::kSignSgd);
    }
    HostedCase::SetUp();
  }
};

TEST_P(ExampleMethod, IsServedWithTheBitsOfARunInOneProcess) {
  ASSERT_TRUE(prepare(12)) << why_not_;
  const TrainResult expected = train(recipe_, {});
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  expect_agreement(run, {0, 1});
  EXPECT_EQ(to_hex(run.wait(0).digest), expected.summary.digest);
}

TEST_P(ExampleMethod, VotesOfTheWrongLengthDoNotCount) {
  ASSERT_TRUE(prepare(60, kPatient, 3)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  run.start_forging(2, [](const Forged& from) { return Bytes(from.own->size() - 1); });
  EXPECT_EQ(run.wait(2).outcome, member::MemberOutcome::kRefused);
  EXPECT_THAT(run.wait(2).why, HasSubstr("excluded"));
  expect_agreement(run, {0, 1});
  EXPECT_THAT(run.messages(), testing::Contains(HasSubstr("a vote of the wrong length")));
}

TEST_P(ExampleMethod, WithoutAReaderOfPayloadsItIsNotServed) {
  static const method::Method unread = [] {
    method::Method copy = method::kSignSgd;
    copy.name = copy.algorithm = "unread";
    return copy;
  }();
  static const sync::Algorithm record = {.name = "unread", .strategy = sync::kSignSgd.strategy};
  method::add_method(unread);
  sync::add_algorithm(record);
  EXPECT_THROW(method::add_method(unread), UsageError);
  const config::Recipe recipe = tiny_recipe(folder_, {"sync.method=unread", "train.workers=2"});
  EXPECT_EQ(train(recipe, {}).outcome, Outcome::kFinished);
  try {
    member::check_hosted(recipe);
    FAIL() << "its payloads would count unchecked";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"unread\" cannot be served: it has no payload reader"));
  }
}

INSTANTIATE_TEST_SUITE_P(SignSgd, ExampleMethod,
                         testing::Values(Variant{&method::kSignSgd, "signsgd", {}}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
