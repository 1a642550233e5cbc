// Compares with tests/golden/maths.json, which tests/golden/make_maths.py made.
#include "thinwire/base/maths.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/rng.h"

namespace thinwire::maths {
namespace {

double number(const nlohmann::json& text) {
  return std::strtod(text.get<std::string>().c_str(), nullptr);
}

// The distance of `value` from `exact`, in units in the last place of the float64 nearest `exact`.
double error(double value, long double exact) {
  const double size = std::fabs(static_cast<double>(exact));
  const double above = std::nextafter(size, std::numeric_limits<double>::infinity());
  return static_cast<double>(std::fabs(value - exact) / (above - size));
}

void expect_golden(const char* name, double (*function)(double)) {
  const auto golden =
      parse_json<nlohmann::json>(read_text_file(tests::source_file("tests/golden/maths.json")));
  ASSERT_GE(golden[name].size(), 100u);
  for (const auto& row : golden[name]) {
    const double x = number(row[0]), value = function(x);
    EXPECT_EQ(std::bit_cast<uint64_t>(value), std::bit_cast<uint64_t>(number(row[1])))
        << name << "(" << row[0] << ")";
    EXPECT_LE(error(value, number(row[2])), 1.0) << name << "(" << row[0] << ")";
  }
}

TEST(Maths, CosPiHasTheBitsOfItsDefinition) { expect_golden("cos_pi", cos_pi); }
TEST(Maths, LogHasTheBitsOfItsDefinition) { expect_golden("log", log); }

TEST(Maths, CosPiIsExactAtMultiplesOfAHalf) {
  for (int i = -8; i <= 8; ++i) {
    const double expected[] = {1, 0, -1, 0};
    EXPECT_EQ(cos_pi(i / 2.0), expected[i & 3]);
  }
}

// long double has 64 bits or more here; if it has no more than double, the test shows nothing.
TEST(Maths, ErrorsAreBelowOneUnitInTheLastPlace) {
  if (std::numeric_limits<long double>::digits < 64) GTEST_SKIP() << "long double is double";
  Rng rng(1, 0);
  double worst_cosine = 0, worst_log = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double u = rng.uniform();
    // Near right angles, an angle in radians has lost the digits that the cosine depends on.
    const double x = 2 * u, nearest = std::fabs(x - 0.5) < std::fabs(x - 1.5) ? 0.5 : 1.5;
    const long double left = std::numbers::pi_v<long double> * (x - nearest);
    const long double exact = std::fabs(x - nearest) < 0.25
                                  ? (nearest < 1 ? -std::sin(left) : std::sin(left))
                                  : std::cos(std::numbers::pi_v<long double> * x);
    worst_cosine = std::max(worst_cosine, error(cos_pi(x), exact));
    worst_log = std::max(worst_log, error(log(1 - u), std::log(static_cast<long double>(1 - u))));
  }
  EXPECT_LT(worst_cosine, 0.95);
  EXPECT_LT(worst_log, 0.95);
}

}  // namespace
}  // namespace thinwire::maths
