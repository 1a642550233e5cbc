#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/method/privacy/privacy.h"

namespace thinwire::method {
namespace {

struct Figure {
  double sampling, noise;
  uint64_t times;
  double delta, epsilon;
};

// Computed by Opacus 1.6.0 (opacus.accountants.analysis.rdp: compute_rdp and get_privacy_spent with
// RDPAccountant's default orders), as tests/golden/make_privacy.py prints them.
constexpr Figure kOpacus[] = {
    {1, 1, 1, 1e-05, 4.72850706722},       {1, 4, 50, 1e-05, 9.23495899168},
    {1, 1.1, 100, 1e-06, 87.3773847742},   {0.01, 1.1, 10000, 1e-05, 5.63199236855},
    {0.1, 0.8, 300, 1e-05, 21.2307684207}, {0.5, 2, 40, 1e-05, 9.06671813266},
    {0.25, 0.5, 10, 0.001, 17.0234012527}, {0.001, 4, 100000, 1e-07, 0.381039148721},
    {0.9, 8, 500, 1e-05, 14.2645986704},   {0.004, 0.6, 1000, 1e-05, 4.57967979548},
};

TEST(Accountant, EpsilonIsThatOfOpacus) {
  for (const Figure& one : kOpacus) {
    EXPECT_NEAR(epsilon_of({one.noise, one.sampling}, one.times, one.delta), one.epsilon,
                1e-8 * one.epsilon)
        << one.sampling << " " << one.noise << " " << one.times;
  }
}

struct Divergence {
  double sampling, noise, order, divergence;
};

constexpr Divergence kDivergences[] = {
    {0.01, 1.1, 1.1, 6.958851489149683e-05}, {0.1, 0.8, 1.1, 0.01523807338790642},
    {0.5, 2.0, 1.1, 0.0356276298496638},     {0.01, 1.1, 2.5, 0.00016207740933199663},
    {0.1, 0.8, 2.5, 0.05808757108371665},    {0.5, 2.0, 2.5, 0.08862984552430168},
    {0.01, 1.1, 10.9, 0.001404899641479493}, {0.1, 0.8, 10.9, 5.980457451122832},
    {0.5, 2.0, 10.9, 0.7001274654610439},    {0.01, 1.1, 3, 0.00019627788991499474},
    {0.1, 0.8, 3, 0.09505853907615294},      {0.5, 2.0, 3, 0.1100231933576234},
    {0.01, 1.1, 63, 21.353610726767897},     {0.1, 0.8, 63, 46.87902643776411},
    {0.5, 2.0, 63, 7.17067321473721},
};

TEST(Accountant, DivergencesOfWholeAndFractionalOrdersAreThoseOfOpacus) {
  for (const Divergence& one : kDivergences) {
    EXPECT_NEAR(renyi_divergence({one.noise, one.sampling}, one.order), one.divergence,
                1e-7 * one.divergence)
        << one.sampling << " " << one.noise << " " << one.order;
  }
}

TEST(Accountant, NothingSaidTellsNothingAndNoNoiseTellsAll) {
  EXPECT_EQ(epsilon_of({1, 1}, 0, 1e-5), 0);
  EXPECT_TRUE(std::isinf(epsilon_of({0, 1}, 1, 1e-5)));
}

TEST(Accountant, MoreNoiseFewerContributionsAndRarerOnesTellLess) {
  const double usual = epsilon_of({1, 0.5}, 20, 1e-5);
  EXPECT_LT(epsilon_of({1.5, 0.5}, 20, 1e-5), usual);
  EXPECT_LT(epsilon_of({1, 0.5}, 10, 1e-5), usual);
  EXPECT_LT(epsilon_of({1, 0.25}, 20, 1e-5), usual);
  EXPECT_GT(epsilon_of({1, 0.5}, 20, 1e-7), usual);
}

TEST(Accountant, TenThousandContributionsOfTinyNoiseAreFinite) {
  EXPECT_TRUE(std::isfinite(epsilon_of({0.05, 0.3}, 10000, 1e-5)));
  EXPECT_TRUE(std::isfinite(epsilon_of({100, 0.999}, 10000, 1e-5)));
}

}  // namespace
}  // namespace thinwire::method
