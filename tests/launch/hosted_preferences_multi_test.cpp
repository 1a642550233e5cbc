// Runs on many hosts that learn preferences: a member that joins later learns them against the
// model that the run started from, too.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/launch/hosted_case.h"
#include "tests/launch/pairs_run.h"

namespace thinwire::launch {
namespace {

class HostedPreferences : public HostedCase {
 protected:
  void SetUp() override {
    folder_ = test_folder();
    prepare_pairs(folder_, 20);
  }
  bool prepare_run(int64_t steps) {
    if (!prepare(steps)) return false;
    recipe_.data.records = config::RecordKind::kPreferences;
    recipe_.train.init = (folder_ / "base" / "run").string();
    recipe_.train.sequence = 48;
    // Once all pairs are learnt, the norms of honest members' gradients differ beyond all measure.
    recipe_.optim.lr = 1e-4;
    return true;
  }
};

TEST_P(HostedPreferences, GiveTheBitsOfThreads) {
  ASSERT_TRUE(prepare_run(12)) << why_not_;
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  expect_agreement(run, {0, 1});
  config::Recipe local = recipe_;
  local.run.dir = (folder_ / "local").string();
  EXPECT_EQ(train(local, {}).summary.digest, to_hex(run.wait(0).digest));
}

// Its reference is that of the others, although it starts from a later snapshot.
TEST_P(HostedPreferences, AJoinerHasTheReferenceOfTheOthers) {
  ASSERT_TRUE(prepare_run(60)) << why_not_;
  expect_agreement_with_a_joiner();
  const auto reference = [&](int member) {
    return read_text_file(folder_ / ("member" + std::to_string(member)) / "reference" /
                          "train.pairs");
  };
  EXPECT_EQ(reference(2), reference(0));
}

INSTANTIATE_TEST_SUITE_P(Methods, HostedPreferences,
                         testing::ValuesIn(variants_named({"allreduce", "distro", "diloco"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
