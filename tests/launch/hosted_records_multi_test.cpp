// Runs on many hosts on prompts with answers, of which only the answers are learnt.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/hosted_case.h"
#include "tests/launch/records_run.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

class HostedRecords : public HostedCase {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_records(folder_, 40);
  }
};

TEST_P(HostedRecords, GiveTheBitsOfThreads) {
  ASSERT_TRUE(prepare(12)) << why_not_;
  recipe_.train.sequence = 48;
  recipe_.train.packing = true;
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  expect_agreement(run, {0, 1});
  config::Recipe local = recipe_;
  local.run.dir = (folder_ / "local").string();
  EXPECT_EQ(train(local, {}).summary.digest, to_hex(run.wait(0).digest));
}

TEST_P(HostedRecords, AJoinerEndsWithTheBitsOfTheOthers) {
  ASSERT_TRUE(prepare(60)) << why_not_;
  recipe_.train.sequence = 48;
  expect_agreement_with_a_joiner();
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedRecords,
                         testing::ValuesIn(variants_named({"allreduce", "distro", "diloco"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
