#include "thinwire/serve/near_copies.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "thinwire/base/rng.h"
#include "thinwire/codec/value_sketch.h"

namespace thinwire::serve {
namespace {

constexpr size_t kValues = 20'000;  // of a payload
using Values = std::vector<float>;

// Payloads of members with these rows: a common part, and noise of variance s / rows beside it.
std::vector<Values> honest(double s, const std::vector<double>& rows, Rng& rng,
                           size_t values = kValues) {
  Values common(values);
  for (float& value : common) value = static_cast<float>(rng.normal());
  std::vector<Values> all;
  for (const double own : rows) {
    all.push_back(common);
    for (float& value : all.back()) {
      value += static_cast<float>(std::sqrt(s / own) * rng.normal());
    }
  }
  return all;
}

std::vector<Values> honest(double s, size_t members, Rng& rng, size_t values = kValues) {
  return honest(s, std::vector<double>(members, 1), rng, values);
}

Values orthogonal(Rng& rng) { return honest(1e9, 1, rng).front(); }

class Payloads {
 public:
  explicit Payloads(const std::vector<Values>& all, const std::vector<double>& rows = {}) {
    for (const Values& values : all) {
      codec::ValueSketch sketch(1);
      sketch.add(0, values);
      directions_.push_back(sketch.direction());
    }
    for (size_t i = 0; i < all.size(); ++i) {
      compared_.push_back({directions_[i], rows.empty() ? 1 : rows[i]});
    }
  }
  bool near_copies(size_t a, size_t b) const { return Resemblance(compared_, a).is_near_copy(b); }
  // The pairs of which at least one is a near copy.
  size_t pairs() const {
    size_t found = 0;
    for (size_t a = 0; a < compared_.size(); ++a) {
      for (size_t b = 0; b < a; ++b) found += near_copies(a, b) ? 1 : 0;
    }
    return found;
  }

 private:
  std::vector<std::vector<float>> directions_;
  std::vector<Compared> compared_;
};

// Changes `share` of the values for others of the same size.
Values changed(Values values, double share, Rng& rng) {
  for (float& value : values) {
    if (rng.uniform() < share) value = static_cast<float>(2 * rng.normal());
  }
  return values;
}

TEST(NearCopies, TheNoiseOfARowIsThatOfTheModel) {
  for (const double s : {1e-4, 0.3, 7.0}) {
    for (const auto& [a, b] : {std::pair(1.0, 1.0), {3.0, 5.0}, {1.0, 40.0}}) {
      const double cosine = 1 / std::sqrt((1 + s / a) * (1 + s / b));
      EXPECT_NEAR(noise_of_a_row(cosine, a, b), s, 1e-9 * s) << a << " and " << b << " rows";
    }
  }
  EXPECT_GT(noise_of_a_row(-1, 1, 1), 15);
  EXPECT_EQ(noise_of_a_row(1, 1, 1), 1e-6);
}

TEST(NearCopies, CopiesWithOneValueChangedAreFoundHoweverMuchHonestOnesResembleEachOther) {
  Rng rng(5, 1);
  for (const double s : {10.0, 1.0, 0.1, 0.01}) {
    auto all = honest(s, 8, rng);
    all[5] = all[2];
    all[5][100] = -3;
    const Payloads payloads(all);
    EXPECT_TRUE(payloads.near_copies(5, 2)) << s;
    EXPECT_TRUE(payloads.near_copies(2, 5)) << s;
    EXPECT_EQ(payloads.pairs(), 1u) << s;
  }
}

TEST(NearCopies, ScaledCopiesAreFound) {
  Rng rng(5, 2);
  for (const double s : {10.0, 0.01}) {
    auto all = honest(s, 8, rng);
    all[5] = all[2];
    for (float& value : all[5]) value *= 1.01f;
    EXPECT_TRUE(Payloads(all).near_copies(5, 2)) << s;
    EXPECT_EQ(Payloads(all).pairs(), 1u) << s;
  }
}

TEST(NearCopies, CopiesWithOneInAHundredValuesChangedAreFound) {
  Rng rng(5, 3);
  for (const double s : {10.0, 3.0, 1.0}) {
    auto all = honest(s, 8, rng);
    all[5] = changed(all[2], 0.01, rng);
    EXPECT_TRUE(Payloads(all).near_copies(5, 2)) << s;
    EXPECT_EQ(Payloads(all).pairs(), 1u) << s;
  }
}

// Each is a copy of the same one, and of each other.
TEST(NearCopies, ThreeOfEightThatCopyAFourthAreFound) {
  Rng rng(5, 4);
  auto all = honest(1, 8, rng);
  for (const size_t copier : {1, 3, 6}) all[copier] = changed(all[0], 1e-3, rng);
  const Payloads payloads(all);
  for (const size_t copier : {1, 3, 6}) EXPECT_TRUE(payloads.near_copies(copier, 0)) << copier;
  EXPECT_EQ(payloads.pairs(), 6u);
}

// Three of eight cannot make two of the others appear as copies by sending what resembles nobody's.
TEST(NearCopies, AMinorityCannotMakeHonestMembersAppearAsCopies) {
  Rng rng(5, 5);
  for (const auto& [members, hostile] : {std::pair(3, 1), {4, 1}, {5, 2}, {8, 3}, {9, 4}}) {
    auto all = honest(0.01, static_cast<size_t>(members), rng);
    for (int i = 0; i < hostile; ++i) all[static_cast<size_t>(i)] = orthogonal(rng);
    EXPECT_EQ(Payloads(all).pairs(), 0u) << hostile << " of " << members;
  }
}

// Two machines with a GPU, each with 60 times the rows of the others: these two resemble each other
// much more than anybody else.
TEST(NearCopies, MembersWithManyRowsResembleEachOtherHonestly) {
  Rng rng(5, 6);
  const std::vector<double> rows = {60, 60, 1, 1, 1, 1, 1, 1};
  for (const double s : {5.0, 1.0, 0.1}) {
    EXPECT_EQ(Payloads(honest(s, rows, rng), rows).pairs(), 0u) << s;
  }
  // Where the noise does not depend on rows.
  for (const double s : {1.0, 0.01}) {
    EXPECT_EQ(Payloads(honest(s, 8, rng), rows).pairs(), 0u) << s;
  }
}

TEST(NearCopies, ACopyByAMemberWithOtherRowsIsFound) {
  Rng rng(5, 7);
  const std::vector<double> rows = {60, 60, 1, 1, 1, 1, 1, 1};
  auto all = honest(1, rows, rng);
  all[7] = changed(all[0], 1e-3, rng);
  EXPECT_TRUE(Payloads(all, rows).near_copies(7, 0));
}

// Payloads whose differences have few directions differ in how much they differ. The table of
// docs/security.md has more of these.
TEST(NearCopies, HonestMembersHardlyEverAppearAsCopies) {
  Rng rng(5, 8);
  for (const double s : {1e-4, 0.01, 0.1, 1.0}) {
    size_t found = 0;
    for (int round = 0; round < 300; ++round) {
      found += Payloads(honest(s, 8, rng, /*values=*/30)).pairs();
    }
    EXPECT_LE(found, 1u) << "of 300 rounds with noise " << s;
  }
}

}  // namespace
}  // namespace thinwire::serve
