#include "thinwire/serve/payload_filter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"

namespace thinwire::serve {
namespace {

constexpr double kPatience = 10;

bool everybody(int) { return true; }

// Members 0 to count - 1.
std::vector<int> roster(size_t count) {
  std::vector<int> members(count);
  std::iota(members.begin(), members.end(), 0);
  return members;
}

membership::Offer offer_of(int member, uint64_t round = 0) {
  membership::Offer offer;
  offer.member = member;
  offer.round = round;
  offer.payload.bytes[0] = static_cast<uint8_t>(member + 1);
  return offer;
}

PayloadContent content(double norm, int values) {
  PayloadContent content{norm, {}};
  content.values.bytes[0] = static_cast<uint8_t>(values);
  content.values.bytes[1] = static_cast<uint8_t>(values >> 8);
  return content;
}

// By member, once judged.
using Reasons = std::map<int, std::string>;

void note(const std::vector<Verdict>& verdicts, Reasons& reasons) {
  for (const Verdict& one : verdicts) {
    EXPECT_TRUE(reasons.emplace(one.offer.member, one.why).second) << "judged twice";
  }
}

// All members offer in order, with these norms.
Reasons judged(const std::vector<double>& norms) {
  PayloadFilter filter(kPatience, 1, everybody);
  Reasons reasons;
  for (int member = 0; std::cmp_less(member, norms.size()); ++member) {
    const membership::Offer offer = offer_of(member);
    filter.offered(offer);
    note(filter.take(offer, content(norms[static_cast<size_t>(member)], member),
                     roster(norms.size()), 0),
         reasons);
  }
  return reasons;
}

TEST(PayloadFilter, ANormFarAboveTheOthersIsRefusedWhoeverIsFirst) {
  for (size_t loud = 0; loud < 8; ++loud) {
    std::vector<double> norms = {1, 1.2, 0.9, 1.1, 1, 0.8, 1.3, 1};
    norms[loud] *= 100;
    const Reasons reasons = judged(norms);
    ASSERT_EQ(reasons.size(), 8u);
    for (const auto& [member, why] : reasons) {
      EXPECT_EQ(why.empty(), std::cmp_not_equal(member, loud)) << member << ": " << why;
    }
  }
}

TEST(PayloadFilter, MembersWhoseNormsDifferSeveralTimesAreHonest) {
  for (const auto& [member, why] : judged({1, 2, 4, 8, 0.5, 0.25, 3, 9})) {
    EXPECT_EQ(why, "") << member;
  }
}

TEST(PayloadFilter, TwoMembersAreNotComparedWithEachOther) {
  for (const auto& [member, why] : judged({1, 1000})) EXPECT_EQ(why, "") << member;
}

// Honest norms as exp(s * normal): the share of payloads that are refused all the same.
TEST(PayloadFilter, RefusesHardlyAnyHonestMember) {
  Rng rng(7, 1);
  for (const double deviation : {0.1, 0.3, 0.5}) {
    int refused = 0;
    constexpr int kRounds = 3000;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> norms;
      for (int member = 0; member < 8; ++member) {
        norms.push_back(std::exp(deviation * rng.normal()));
      }
      for (const auto& [member, why] : judged(norms)) refused += why.empty() ? 0 : 1;
    }
    EXPECT_LE(refused, 2) << "of " << 8 * kRounds << " with deviation " << deviation;
  }
}

TEST(PayloadFilter, TheLaterOfTwoEqualPayloadsIsACopy) {
  PayloadFilter filter(kPatience, 1, everybody);
  Reasons reasons;
  for (const int member : {2, 0, 1}) filter.offered(offer_of(member));
  // They arrive in another order than they were offered in.
  note(filter.take(offer_of(1), content(1, 7), roster(3), 0), reasons);
  note(filter.take(offer_of(0), content(1, 5), roster(3), 0), reasons);
  note(filter.take(offer_of(2), content(1, 7), roster(3), 0), reasons);
  EXPECT_EQ(reasons, (Reasons{{0, ""}, {1, "it is a copy of member 2's"}, {2, ""}}));
}

using Vector = std::vector<double>;

// Members have these rows; what they send is a common part and noise of variance 1 / rows.
std::vector<Vector> honest_vectors(const std::vector<int>& rows) {
  Rng rng(7, 2);
  Vector common(1000);
  for (double& value : common) value = rng.normal();
  std::vector<Vector> all(rows.size(), common);
  for (size_t member = 0; member < rows.size(); ++member) {
    for (double& value : all[member]) value += rng.normal() / std::sqrt(rows[member]);
  }
  return all;
}

// All members offer, and then arrive, in order.
Reasons judged_by_values(const std::vector<int>& rows, const std::vector<Vector>& vectors) {
  PayloadFilter filter(kPatience, 1, everybody);
  Reasons reasons;
  for (int member = 0; std::cmp_less(member, rows.size()); ++member) {
    filter.offered(offer_of(member));
  }
  for (int member = 0; std::cmp_less(member, rows.size()); ++member) {
    PayloadContent one = content(1, member);
    one.rows = rows[static_cast<size_t>(member)];
    const Vector& vector = vectors[static_cast<size_t>(member)];
    const double length =
        std::sqrt(std::inner_product(vector.begin(), vector.end(), vector.begin(), 0.0));
    for (const double value : vector) one.direction.push_back(static_cast<float>(value / length));
    note(filter.take(offer_of(member), one, roster(rows.size()), 0), reasons);
  }
  return reasons;
}

TEST(PayloadFilter, TheLaterOfTwoPayloadsThatHardlyDifferIsACopy) {
  const std::vector<int> rows(8, 2);
  std::vector<Vector> vectors = honest_vectors(rows);
  vectors[6] = vectors[1];
  vectors[6][9] += 1;
  for (const auto& [member, why] : judged_by_values(rows, vectors)) {
    EXPECT_EQ(why.substr(0, 60),
              member == 6 ? "it is a copy of member 1's with changes: their cosine is 0.9" : "")
        << member;
  }
}

// Two members have many rows, and their payloads are nearly the common part. The first one's is
// copied by a member with few rows before the second one offers.
TEST(PayloadFilter, WhoResemblesACopyIsNoCopier) {
  const std::vector<int> rows = {60, 1, 1, 1, 1, 1, 1, 60};
  std::vector<Vector> vectors = honest_vectors(rows);
  vectors[3] = vectors[0];
  vectors[3][9] += 1;
  for (const auto& [member, why] : judged_by_values(rows, vectors)) {
    EXPECT_EQ(why.empty(), member != 3) << member << ": " << why;
  }
}

TEST(PayloadFilter, RemembersAFewOffersOfAMemberForAnOperation) {
  PayloadFilter filter(kPatience, 1, everybody);
  membership::Offer offer = offer_of(1);
  for (size_t i = 0; i < kMaxOffers; ++i) {
    offer.payload.bytes[1] = static_cast<uint8_t>(i);
    EXPECT_TRUE(filter.offered(offer));
  }
  EXPECT_TRUE(filter.offered(offer)) << "again";
  offer.payload.bytes[1] = 99;
  EXPECT_FALSE(filter.offered(offer));
  EXPECT_TRUE(filter.offered(offer_of(0)));
  EXPECT_TRUE(filter.offered(offer_of(2)));
  EXPECT_TRUE(filter.offered(offer_of(1, 1))) << "for another operation";
}

TEST(PayloadFilter, PayloadsOfNothingAreNoCopies) {
  PayloadFilter filter(kPatience, 1, everybody);
  Reasons reasons;
  for (const int member : {0, 1, 2, 3}) {
    filter.offered(offer_of(member));
    const auto nothing = member < 2 ? std::optional(content(0, 0)) : std::nullopt;
    note(filter.take(offer_of(member), nothing, roster(4), 0), reasons);
  }
  EXPECT_EQ(reasons, (Reasons{{0, ""}, {1, ""}, {2, ""}, {3, ""}}));
}

TEST(PayloadFilter, APayloadThatComesAgainGetsItsVerdictAgain) {
  PayloadFilter filter(kPatience, 1, everybody);
  EXPECT_TRUE(filter.take(offer_of(0), content(1, 0), roster(3), 0).empty());
  EXPECT_TRUE(filter.take(offer_of(0), content(1, 0), roster(3), 0).empty());
  const Failure failure{FailureKind::kCorruptPayload, "it is damaged"};
  for (int times = 0; times < 2; ++times) {
    const auto verdicts = filter.take(offer_of(1), tl::unexpected(failure), roster(3), 0);
    ASSERT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts.front().why, "it is damaged");
  }
  EXPECT_EQ(filter.take(offer_of(2), content(1, 2), roster(3), 0).size(), 2u);
  const auto again = filter.take(offer_of(0), content(1, 0), roster(3), 0);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again.front().why, "");
}

TEST(PayloadFilter, WaitsForMoreThanHalfOfTheRosterAndNotForever) {
  PayloadFilter filter(kPatience, 1, everybody);
  EXPECT_TRUE(filter.take(offer_of(0), content(1, 0), roster(8), 1).empty());
  EXPECT_TRUE(filter.take(offer_of(1), content(1, 1), roster(8), 2).empty());
  EXPECT_TRUE(filter.tick(10.5).empty());
  EXPECT_EQ(filter.tick(11).size(), 2u);
  EXPECT_TRUE(filter.tick(12).empty());
  filter.forget_before(1);
  EXPECT_EQ(filter.take(offer_of(0, 1), content(1, 0), roster(1), 13).size(), 1u);
}

// Of three members one has left and one is absent.
TEST(PayloadFilter, WaitsForNobodyWhoIsGone) {
  std::set<int> gone = {1};
  PayloadFilter filter(kPatience, 1, [&](int member) { return !gone.contains(member); });
  EXPECT_TRUE(filter.take(offer_of(0), content(1, 0), roster(3), 1).empty());
  EXPECT_TRUE(filter.tick(1.5).empty());
  gone.insert(2);
  EXPECT_EQ(filter.tick(2).size(), 1u);
  EXPECT_TRUE(filter.tick(2.5).empty()) << "it is judged once";
  EXPECT_EQ(filter.take(offer_of(0, 1), content(1, 0), roster(3), 3).size(), 1u);
}

// Otherwise a slow one of three would be waited for all the same.
TEST(PayloadFilter, WaitsForNoMoreThanAQuorum) {
  PayloadFilter filter(kPatience, 0.6, everybody);
  EXPECT_TRUE(filter.take(offer_of(0), content(1, 0), roster(3), 1).empty());
  EXPECT_EQ(filter.take(offer_of(1), content(1, 1), roster(3), 2).size(), 2u);
  EXPECT_TRUE(filter.take(offer_of(0, 1), content(1, 0), roster(4), 3).empty());
  EXPECT_TRUE(filter.take(offer_of(1, 1), content(1, 1), roster(4), 3).empty());
  EXPECT_EQ(filter.take(offer_of(2, 1), content(1, 2), roster(4), 3).size(), 3u);
}

// Else one member could have its payloads judged before others come.
TEST(PayloadFilter, CountsMembersNotPayloads) {
  PayloadFilter filter(kPatience, 1, everybody);
  membership::Offer offer = offer_of(0);
  for (size_t i = 0; i < kMaxOffers; ++i) {
    offer.payload.bytes[1] = static_cast<uint8_t>(i);
    EXPECT_TRUE(filter.take(offer, content(1, static_cast<int>(i)), roster(4), 0).empty());
  }
}

}  // namespace
}  // namespace thinwire::serve
