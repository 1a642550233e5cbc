#include "thinwire/hosts/run_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "thinwire/transport/courier/blob.h"

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
  status.members[2].refused = "round 4: it has a value that is not finite";
  const auto read = read_status(print_status(status));
  ASSERT_TRUE(read);
  ASSERT_EQ(read->members.size(), 3u);
  EXPECT_EQ(read->members[1].refused, "");
  EXPECT_EQ(read->members[2].refused, status.members[2].refused);
  EXPECT_EQ(read->members[1].audits, 12u);
  EXPECT_EQ(read->members[1].effect, 0.25);
  EXPECT_THAT(describe(*read),
              Contains(HasSubstr("member 2's payload was refused in round 4: it has "
                                 "a value that is not finite")));
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

}  // namespace
}  // namespace thinwire::hosts
