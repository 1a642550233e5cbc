#include "thinwire/serve/audit_board.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/rng.h"

namespace thinwire::serve {
namespace {

using membership::Audit;
using testing::HasSubstr;

// Effects of honest members as measured of DisTrO (docs/audits.md), in units of their mean.
constexpr double kDeviation = 0.8;
constexpr int kMembers = 8;

// Rounds until a member has three offences, where one random contribution is audited in each;
// `rounds` if it never has. `effect` of member 0 and of the others, as means.
int rounds_to_exclusion(AuditBoard& board, int watched, double effect, double others, Rng& rng,
                        int rounds) {
  int offences = 0;
  for (int round = 0; round < rounds; ++round) {
    const int member = static_cast<int>(rng.below(kMembers));
    const double mean = member == 0 ? effect : others;
    const std::string why =
        board.take({member, static_cast<uint64_t>(round), 0, mean + kDeviation * rng.normal(), {}});
    if (why.empty() || member != watched) continue;
    if (++offences == 3) return round;
  }
  return rounds;
}

TEST(AuditBoard, NamesAMemberWithoutEffect) {
  Rng rng(1, 0);
  for (int run = 0; run < 20; ++run) {
    AuditBoard board;
    EXPECT_LT(rounds_to_exclusion(board, 0, 0, 1, rng, 2000), 2000) << "run " << run;
  }
}

TEST(AuditBoard, HonestMembersAreNotNamed) {
  Rng rng(2, 0);
  for (int run = 0; run < 20; ++run) {
    AuditBoard board;
    int offences = 0;
    for (uint64_t round = 0; round < 5000; ++round) {
      const int member = static_cast<int>(rng.below(kMembers));
      offences += board.take({member, round, 0, 1 + kDeviation * rng.normal(), {}}).empty() ? 0 : 1;
    }
    EXPECT_EQ(offences, 0) << "run " << run;
  }
}

// Its first audits are of a time when effects were small, and those of the others are forgotten.
TEST(AuditBoard, AMemberThatReturnsIsNotComparedWithWhatWasForgotten) {
  AuditBoard board;
  uint64_t round = 0;
  for (; round < 200; ++round) {
    for (int member = 0; member < 4; ++member) board.take({member, round, 0, 0.1, {}});
  }
  for (; round < 600; ++round) {
    for (int member = 1; member < 4; ++member) board.take({member, round, 0, 1, {}});
  }
  for (; round < 700; ++round) {
    for (int member = 0; member < 4; ++member) {
      EXPECT_EQ(board.take({member, round, 0, 1, {}}), "") << round;
    }
  }
}

TEST(AuditBoard, ComparesNoEffectsOfMembersWithUnequalRows) {
  AuditBoard board(false);
  for (uint64_t round = 0; round < 300; ++round) {
    for (int member = 0; member < 4; ++member) {
      EXPECT_EQ(board.take({member, round, 0, member == 0 ? 0.1 : 1, {}}), "");
    }
  }
}

TEST(AuditBoard, SaysWhy) {
  AuditBoard board;
  std::string why;
  for (uint64_t round = 0; round < 64 && why.empty(); ++round) {
    for (const int member : {1, 2, 3}) {
      EXPECT_EQ(board.take({member, round, 0, round % 2 == 0 ? 0.9 : 1.1, {}}), "");
    }
    why = board.take({0, round, 0, round % 2 == 0 ? 0.1 : -0.1, {}});
  }
  EXPECT_EQ(why,
            "what it sends helps the rows that it is assigned no more than others: in 8 audits its "
            "effect was 0 on average, where 1 is usual");
  EXPECT_EQ(board.of(0).audits, 0u) << "what made an offence is forgotten";
  EXPECT_EQ(board.of(1).audits, 8u);
  EXPECT_NEAR(board.of(1).effect, 1, 1e-12);
}

TEST(AuditBoard, OneOfTwoMembersCannotBeTold) {
  AuditBoard board;
  for (uint64_t round = 0; round < 100; ++round) {
    EXPECT_EQ(board.take({0, round, 0, 0, 1.0}), "");
    EXPECT_EQ(board.take({1, round, 0, 1, 0.0}), "");
  }
}

TEST(AuditBoard, MembersThatJoinLaterAreComparedWithWhatIsUsualThen) {
  AuditBoard board;
  Rng rng(3, 0);
  // Effects fall to a third as the run goes on.
  const auto audit = [&](int member, uint64_t round) {
    const double usual = round < 500 ? 3 : 1;
    return board.take({member, round, 0, usual + 0.3 * rng.normal(), {}});
  };
  for (uint64_t round = 0; round < 1000; ++round) {
    for (const int member : {0, 1, 2}) EXPECT_EQ(audit(member, round), "");
    if (round < 700) continue;
    EXPECT_EQ(audit(3, round), "") << round;
  }
}

TEST(AuditBoard, AContributionThatIsNotTheGradientIsAnOffence) {
  AuditBoard board;
  for (const int member : {1, 2}) EXPECT_EQ(board.take({member, 3, 0, 0.7, 0.001}), "");
  EXPECT_EQ(board.take({0, 4, 0, 0.7, 0.2}), "");
  EXPECT_THAT(
      board.take({0, 5, 0, 0.7, 1.4}),
      HasSubstr("round 5 is not the gradient of its rows: recomputed, it differs by 140 %"));
}

TEST(AuditBoard, AnAuditorThatComputesWronglyConvictsNobody) {
  AuditBoard board;
  for (uint64_t round = 0; round < 100; ++round) {
    for (const int member : {0, 1, 2, 3}) {
      EXPECT_EQ(board.take({member, round, 0, 0.001, 0.9}), "") << member;
    }
  }
}

}  // namespace
}  // namespace thinwire::serve
