// Joining a served run from a program (thinwire/joining.h); examples_multi_test.py joins one.
#include "thinwire/joining.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/errors.h"

namespace thinwire {
namespace {

TEST(Joining, SaysWhatIsWrong) {
  JoiningOptions options;
  options.address = "127.0.0.1:1";
  options.token = "no token";
  const auto failure = [&] { return tests::error_of([&] { join_run(options); }); };
  EXPECT_THAT(failure(), testing::HasSubstr("token"));
  const OwnModel incomplete;
  options.own_model = &incomplete;
  EXPECT_THAT(failure(), testing::HasSubstr("OwnModel::worker must be set"));
}

}  // namespace
}  // namespace thinwire
