// Runs on many hosts that keep weights, state or bases in fewer bits: whoever joins receives them
// as they are.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/launch/hosted_case.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

class HostedTypes : public HostedCase {};

TEST_P(HostedTypes, GiveTheBitsOfARunInOneProcess) {
  ASSERT_TRUE(prepare(12)) << why_not_;
  const TrainResult expected = train(recipe_, {});
  HostedRun run(recipe_, folder_, options_);
  for (const int number : {0, 1}) run.start(number);
  for (const int number : {0, 1}) {
    EXPECT_EQ(to_hex(run.wait(number).digest), expected.summary.digest) << "member " << number;
  }
  run.wait_until_over();
}

TEST_P(HostedTypes, AJoinerEndsWithTheBitsOfTheOthers) {
  ASSERT_TRUE(prepare(60)) << why_not_;
  expect_agreement_with_a_joiner();
}

std::vector<Variant> variants() {
  const auto variant = [](const char* method, const char* name, std::vector<std::string> fields) {
    return Variant{&method::find_method(method), name, std::move(fields)};
  };
  return {
      variant("allreduce", "weights_bf16",
              {"train.weights=bf16", "train.precision=bf16", "optim.state=bf16"}),
      variant("allreduce", "state_8bit", {"optim.state=8bit"}),
      variant("distro", "state_8bit_of_distro", {"distro.update=adamw", "optim.state=8bit"}),
      variant("diloco", "state_8bit_of_diloco", {"optim.state=8bit", "diloco.overlap=delayed"}),
      variant("allreduce", "bases_8bit",
              {"optim.method=galore", "galore.rank=4", "galore.refresh=5", "optim.bases=8bit"})};
}

INSTANTIATE_TEST_SUITE_P(Formats, HostedTypes, testing::ValuesIn(variants()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
