#include "thinwire/hosts/run_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace thinwire::hosts
