// Sums that the coordinator forms for the members (sync.sums): the same bits for fewer bytes.
#include <gtest/gtest.h>

#include "tests/launch/hosted_case.h"
#include "thinwire/launch/train.h"

namespace thinwire::launch {
namespace {

class HostedSums : public HostedCase {
 protected:
  static constexpr int kWorkers = 4;

  // Bytes that a member receives a step, by who forms the sums.
  double received(const char* who, const std::string& digest) {
    EXPECT_TRUE(prepare(12, kPatient, kWorkers, {std::string("sync.sums=") + who})) << why_not_;
    for (int number = 0; number < kWorkers; ++number) {
      fs::remove_all(folder_ / ("member" + std::to_string(number)));
    }
    HostedRun run(recipe_, folder_, options_);
    for (int number = 0; number < kWorkers; ++number) run.start(number);
    double bytes = 0;
    for (int number = 0; number < kWorkers; ++number) {
      const member::MemberResult result = run.wait(number);
      EXPECT_EQ(to_hex(result.digest), digest) << who << ", member " << number;
      bytes = result.summary.bytes_received_per_worker_step;
    }
    return bytes;
  }

  // Where contributions are left out, or count late, the sum is scaled.
  void expect_sums_with_absences() {
    const char* const late = GetParam().method->local_updates ? "count" : "drop";
    ASSERT_TRUE(
        prepare(42, kHasty, kWorkers,
                {"sync.quorum=0.6", std::string("sync.late=") + late, "sync.sums=coordinator"}))
        << why_not_;
    options_ = membership::options_of(recipe_.sync);
    options_.snapshot_every = 5;
    HostedRun run(recipe_, folder_, options_);
    run.pace(0.03);
    for (const int number : {0, 1, 2}) run.start(number);
    run.pace(0.06);
    run.start(3);
    expect_agreement(run, {0, 1, 2, 3});
  }
};

TEST_P(HostedSums, GiveTheSameBitsForOneBufferInsteadOfOneOfEachOther) {
  ASSERT_TRUE(prepare(12, kPatient, kWorkers)) << why_not_;
  const std::string digest = train(recipe_, {}).summary.digest;
  const double own = received("members", digest);
  const double coordinators = received("coordinator", digest);
  EXPECT_DOUBLE_EQ(own, coordinators * (kWorkers - 1));
}

TEST_P(HostedSums, OfThoseWhoAreThereAreTheSameOnEveryReplica) { expect_sums_with_absences(); }

INSTANTIATE_TEST_SUITE_P(Methods, HostedSums,
                         testing::ValuesIn(variants_named({"allreduce", "diloco_int2",
                                                           "diloco_eager", "streaming_inner"})),
                         [](const auto& test) { return test.param.name; });

class HostedMeans : public HostedSums {};

TEST_P(HostedMeans, GiveTheSameBitsForOneBufferInsteadOfOneOfEachOther) {
  ASSERT_TRUE(prepare(12, kPatient, kWorkers)) << why_not_;
  const std::string digest = train(recipe_, {}).summary.digest;
  const double own = received("members", digest);
  const double coordinators = received("coordinator", digest);
  EXPECT_LT(coordinators, own / 2);
}

TEST_P(HostedMeans, OfThoseWhoAreThereAreTheSameOnEveryReplica) { expect_sums_with_absences(); }

INSTANTIATE_TEST_SUITE_P(Methods, HostedMeans,
                         testing::ValuesIn(variants_named({"distro_summed", "sparseloco_summed"})),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace thinwire::launch
