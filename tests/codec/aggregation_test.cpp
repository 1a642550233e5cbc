// The rules of sync.aggregate against tests/golden/make_aggregation.py, an independent
// implementation, and what each of them promises.
#include "thinwire/codec/aggregation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/names.h"

namespace thinwire::codec {
namespace {

using Rows = std::vector<std::vector<float>>;

std::vector<float> aggregate(const AggregateOptions& options, const std::vector<float>& weights,
                             const Rows& rows, bool of_senders = false) {
  std::vector<Magnitude> magnitudes(rows.size());
  std::vector<const float*> places;
  for (size_t m = 0; m < rows.size(); ++m) {
    measure(rows[m], magnitudes[m]);
    places.push_back(rows[m].data());
  }
  std::vector<float> out(rows.front().size());
  Aggregation(options, weights, magnitudes).combine({places, out.size(), of_senders}, out.data());
  return out;
}

TEST(Aggregation, AgreesWithTheReference) {
  const auto golden = parse_json<nlohmann::json>(
      read_text_file(tests::source_file("tests/golden/aggregation.json")));
  int cases = 0;
  for (const auto& one : golden.at("cases")) {
    const std::string rule = one.at("rule");
    const AggregateOptions options{*value_named<Aggregate>(rule), one.at("trim")};
    const auto expected = one.at("aggregate").get<std::vector<double>>();
    const auto got =
        aggregate(options, one.at("weights"), one.at("values").get<Rows>(), one.at("of_senders"));
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 2e-6 * std::max(1.0, std::abs(expected[i])))
          << rule << ", case " << cases << ", coordinate " << i;
    }
    ++cases;
  }
  EXPECT_GT(cases, 40);
}

TEST(Aggregation, EveryRuleButTheMeanIsInTheTableOnce) {
  for (const std::string_view name : kAggregateNames) {
    const auto rules = all_aggregation_rules();
    const auto found = std::ranges::count_if(
        rules, [&](const AggregationRule* rule) { return name_of(rule->name) == name; });
    EXPECT_EQ(found, name == "mean" ? 0 : 1) << name;
  }
}

// Whatever one of eight sends, no coordinate leaves the range of what the others sent by much.
TEST(Aggregation, OneMemberOfEightMovesTheResultLittle) {
  const std::vector<float> weights(8, 0.125f);
  Rows rows(8, {1.0f, -2.0f, 0.5f});
  for (size_t m = 0; m < rows.size(); ++m) rows[m][2] += 0.01f * static_cast<float>(m);
  for (const float scale : {-100.0f, 100.0f, -1e30f}) {
    Rows attacked = rows;
    for (float& value : attacked[3]) value *= scale;
    for (const AggregationRule* rule : all_aggregation_rules()) {
      const auto honest = aggregate({rule->name, 0.1}, weights, rows);
      const auto got = aggregate({rule->name, 0.1}, weights, attacked);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], honest[i], 0.3 * std::abs(honest[i]) + 0.02)
            << rule->sentence << ", scale " << scale << ", coordinate " << i;
        EXPECT_GT(got[i] * honest[i], 0);
      }
    }
  }
}

TEST(Aggregation, ValuesThatAreNotFiniteAreMeasured) {
  Magnitude magnitude;
  measure(std::vector<float>{1, 2}, magnitude);
  EXPECT_TRUE(magnitude.finite());
  EXPECT_EQ(magnitude.values, 2);
  measure(std::vector<float>{0, std::nanf("")}, magnitude);
  EXPECT_FALSE(magnitude.finite());
  Magnitude infinite;
  measure(std::vector<float>{INFINITY}, infinite);
  EXPECT_FALSE(infinite.finite());
}

}  // namespace
}  // namespace thinwire::codec
