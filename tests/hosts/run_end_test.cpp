#include "thinwire/hosts/run_end.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/serve/host_case.h"
#include "thinwire/base/digest.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {
namespace {

constexpr uint64_t kDigest = 7;

class RunEndTest : public serve::HostCase {
 protected:
  // A run is over; all but member 2 have reported their results.
  void SetUp() override {
    recipe_.sync.timeout_s = 100;
    begin(1);
    close(0);
    report_all(membership::AgreedDigest{0, kDigest});
    ASSERT_TRUE(host_->over());
    end_.note(host_->state());
    events::Summary summary;
    summary.digest = to_hex(kDigest);
    for (const int member : {0, 1}) end_.add(key(member), summary);
  }
  bool awaits_results() { return end_.awaits_results(*host_, now_); }
  // Member 2's connection has ended.
  void disconnect() {
    const std::string notice = fmt::format(R"({{"client":{{"id":1,"user":"{}"}}}})", name(2));
    server_->publish(transport::kDepartureTopic, Bytes(notice.begin(), notice.end()));
    wait(1);
  }

  config::Recipe recipe_;
  RunEnd end_{recipe_};
  const std::unique_ptr<transport::Courier> server_ =
      network_.connect(transport::kServerParticipant);
};

TEST_F(RunEndTest, WaitsForTheResultOfAMemberUntilItHasBeenSilentForLong) {
  EXPECT_TRUE(awaits_results());
  for (int second = 0; second < 40; ++second) {
    wait(1);
    EXPECT_TRUE(awaits_results());
  }
  wait(20);
  EXPECT_FALSE(awaits_results());
}

TEST_F(RunEndTest, WaitsNotSoLongForOneWhoseConnectionHasEnded) {
  EXPECT_TRUE(awaits_results());
  disconnect();
  wait(15);
  EXPECT_TRUE(awaits_results()) << "it may be on its way back";
  wait(5);
  EXPECT_FALSE(awaits_results());
}

// Another coordinator is started after the end, which member 2 has not reached.
TEST_F(RunEndTest, SaysForHowLongItServesWhoeverItHasNeverHeard) {
  start(1);
  wait(1);
  for (const int member : {0, 1}) report(member, membership::AgreedDigest{0, kDigest});
  wait(1);
  EXPECT_THAT(end_.waiting_message(*host_),
              testing::HasSubstr("still served, for at most 25.0 s, so that member 2 can fetch"));
}

TEST_F(RunEndTest, WaitsForOneThatHasConnectedAgain) {
  EXPECT_TRUE(awaits_results());
  disconnect();
  report(2);
  wait(20);
  EXPECT_TRUE(awaits_results());
}

TEST_F(RunEndTest, EveryMemberHasTheFinalWeights) {
  EXPECT_EQ(RunEnd::lacking_message(*host_), "");
}

using StoppedEarly = serve::HostCase;

TEST_F(StoppedEarly, ARunNamesTheMembersThatLackItsFinalWeights) {
  begin(1);
  close(0);
  for (const int member : {0, 2}) report(member, membership::AgreedDigest{0, kDigest});
  wait(1);
  EXPECT_EQ(RunEnd::lacking_message(*host_),
            "member 1 lacks the final weights and can no longer fetch them; the same command "
            "serves them again");
}

}  // namespace
}  // namespace thinwire::hosts
