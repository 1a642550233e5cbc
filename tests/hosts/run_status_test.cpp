#include "thinwire/hosts/run_status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/serve/host_case.h"
#include "thinwire/transport/courier/blob.h"
#include "thinwire/transport/courier/courier.h"

namespace thinwire::hosts {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(RunStatus, SaysWhoSentAPayloadThatWasRefusedAndWhy) {
  RunStatus status;
  status.members.resize(3);
  status.members[2].id = 2;
  status.members[2].offences = 1;
  status.members[1].audits = 12;
  status.members[1].effect = 0.25;
  status.members[1].contributed = {1200, 5'000'000, {1800, 7.2e6, 250}};
  status.members[2].refused = "round 4: it has a value that is not finite";
  const auto read = read_status(print_status(status));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->members.size(), 3u);
  EXPECT_EQ(read->members[1].refused, "");
  EXPECT_EQ(read->members[2].refused, status.members[2].refused);
  EXPECT_EQ(read->members[1].audits, 12u);
  EXPECT_EQ(read->members[1].effect, 0.25);
  EXPECT_EQ(read->members[1].contributed, status.members[1].contributed);
  EXPECT_THAT(describe(*read), Contains(testing::AllOf(HasSubstr("2 kWh"), HasSubstr("0.25 kg"))));
  EXPECT_THAT(describe(*read),
              Contains(HasSubstr("member 2's payload was refused in round 4: it has "
                                 "a value that is not finite")));
}

TEST(RunStatus, ADeeplyNestedAnswerIsRefused) {
  EXPECT_FALSE(read_status(std::string(100'000, '[') + std::string(100'000, ']')));
}

TEST(RunStatus, FitsIntoAnAnswerHoweverManyMembersThereAre) {
  RunStatus status;
  for (int id = 0; id < 10'000; ++id) {
    status.members.push_back(
        {.id = id, .key = "ABCDEFGHIJ", .phase = "catching up", .refused = {}});
  }
  const std::string text = print_status(status);
  EXPECT_LE(text.size(), transport::kMaxMessageBytes - 1024);
  const auto read = read_status(text);
  ASSERT_TRUE(read);
  EXPECT_GT(read->members.size(), 1000u);
  EXPECT_EQ(read->members.size() + read->left_out, status.members.size());
  EXPECT_THAT(describe(*read), Contains(HasSubstr("more members, for which")));
  EXPECT_EQ(print_status(*read), text);
}

class WaitsFor : public serve::HostCase {
 protected:
  void SetUp() override {
    recipe_.sync.timeout_s = 100;
    begin(9);
  }
  std::string text() { return waits_for(recipe_, *host_, ""); }
  void disconnect(int member) {
    const std::string notice = fmt::format(R"({{"client":{{"id":1,"user":"{}"}}}})", name(member));
    server_->publish(transport::kDepartureTopic, Bytes(notice.begin(), notice.end()));
    wait(1);
  }

  config::Recipe recipe_;
  const std::unique_ptr<transport::Courier> server_ =
      network_.connect(transport::kServerParticipant);
};

TEST_F(WaitsFor, NamesThoseWhoseConnectionsEndedAtOnceAndOthersOnceTheyAreSilent) {
  EXPECT_EQ(text(), "");
  disconnect(0);
  EXPECT_EQ(text(), "member 0, which is no longer connected");
  disconnect(1);
  EXPECT_EQ(text(), "members 0, 1, which are no longer connected");
  report(0);
  report(1);
  wait(1);
  EXPECT_EQ(text(), "") << "they are back";
  disconnect(1);
  wait(5);
  EXPECT_EQ(text(),
            "member 1, which is no longer connected; and for members 0, 2, silent for more than "
            "5.0 s");
}

// The round closes without them.
TEST_F(WaitsFor, NamesNobodyWhoLeftWhileOthersTrain) {
  send(1, membership::LeaveNotice{1});
  disconnect(1);
  EXPECT_EQ(text(), "");
  for (const int member : {0, 2}) send(member, membership::LeaveNotice{member});
  wait(1);
  EXPECT_EQ(text(), "members: none that can train is present");
}

}  // namespace
}  // namespace thinwire::hosts
