#include "thinwire/hosts/run_display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "thinwire/base/nkey.h"

namespace thinwire::hosts {
namespace {

using membership::Phase;

membership::State state_of(const std::vector<Phase>& phases) {
  membership::State state;
  state.next_round = 57;
  for (const Phase phase : phases) {
    membership::Member& member = state.members.emplace_back();
    member.key = make_signer(make_seed())->key();
    member.phase = phase;
  }
  return state;
}

class RunDisplayTest : public testing::Test {
 protected:
  std::string shown(const membership::State& state) {
    testing::internal::CaptureStderr();
    display_.show(state);
    return testing::internal::GetCapturedStderr();
  }

  const config::Recipe recipe_;
  std::string machine_;
  RunDisplay display_{recipe_, [this](const PublicKey&) { return machine_; },
                      events::terminal_display()};
};

TEST_F(RunDisplayTest, OfARunThatGoesOnSumsUpWhatHappenedBefore) {
  membership::State state = state_of({Phase::kActive, Phase::kLeft, Phase::kActive});
  const std::string before = shown(state);
  EXPECT_THAT(before, testing::HasSubstr("the run goes on from round 57; it had 3 members before: "
                                         "2 active, 1 left\n"));
  EXPECT_THAT(before, testing::Not(testing::HasSubstr(" is ")));
  state.members[0].phase = Phase::kLost;
  EXPECT_THAT(shown(state),
              testing::HasSubstr("member 0 (" + key_id(state.members[0].key) + ") is lost\n"));
  machine_ = "alice";
  state.members[1].phase = Phase::kActive;
  EXPECT_THAT(shown(state), testing::HasSubstr(", alice) is active"));
}

TEST_F(RunDisplayTest, OfANewRunNamesEveryMember) {
  EXPECT_THAT(shown({}), testing::Not(testing::HasSubstr("before")));
  const std::string first = shown(state_of({Phase::kCatchingUp}));
  EXPECT_THAT(first, testing::HasSubstr("member 0 ("));
  EXPECT_THAT(first, testing::Not(testing::HasSubstr("before")));
}

}  // namespace
}  // namespace thinwire::hosts
