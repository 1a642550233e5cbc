#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/base/names.h"
#include "thinwire/tensor/kernels/attention.h"

namespace thinwire::tensor {
namespace {

using nlohmann::json;

RopeSpec spec_of(const json& golden) {
  const json& said = golden["spec"];
  RopeSpec rope;
  rope.scaling = value_named<RopeScaling>(said["rope_type"].get<std::string>()).value();
  rope.theta = said["rope_theta"];
  rope.factor = said["factor"];
  rope.context =
      said.value("original_max_position_embeddings", golden["max_position_embeddings"].get<int>());
  rope.low_frequency = said.value("low_freq_factor", 1.0);
  rope.high_frequency = said.value("high_freq_factor", 4.0);
  rope.beta_fast = said.value("beta_fast", 32.0);
  rope.beta_slow = said.value("beta_slow", 1.0);
  rope.truncate = said.value("truncate", true);
  rope.attention_factor = said.value("attention_factor", 0.0);
  return rope;
}

TEST(Rope, FrequenciesOfEveryScalingEqualTheReference) {
  const json cases = parse_json<json>(read_text_file(tests::source_file("tests/golden/rope.json")));
  for (const auto& [name, golden] : cases.items()) {
    const RopeSpec rope = spec_of(golden);
    const std::vector<double> expected = golden["frequencies"];
    const auto got = rope_frequencies(rope, golden["head_dim"], golden["length"]);
    ASSERT_EQ(got.size(), expected.size()) << name;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i], expected[i], 1e-12 * expected[i]) << name << ", pair " << i;
    }
    EXPECT_NEAR(rope_magnitude(rope), golden["magnitude"].get<double>(), 1e-12) << name;
  }
}

TEST(Rope, ATableHoldsCosinesAndSinesOfTheFrequencies) {
  RopeSpec rope;
  rope.scaling = RopeScaling::kYarn;
  rope.factor = 4;
  rope.context = 128;
  const RopeTable table(9, 16, rope);
  const auto frequencies = rope_frequencies(rope, 16, 9);
  EXPECT_NEAR(table.cosine(8)[3], rope_magnitude(rope) * std::cos(8 * frequencies[3]), 1e-7);
  EXPECT_NEAR(table.sine(8)[3], rope_magnitude(rope) * std::sin(8 * frequencies[3]), 1e-7);
}

TEST(Rope, OnlyTextsBeyondADynamicContextNeedAnotherTable) {
  RopeSpec rope;
  rope.factor = 2;
  rope.context = 20;
  rope.scaling = RopeScaling::kLinear;
  EXPECT_TRUE(RopeTable(40, 8, rope).is_for(40));
  rope.scaling = RopeScaling::kDynamic;
  const RopeTable within(40, 8, rope);
  EXPECT_TRUE(within.is_for(20));
  EXPECT_FALSE(within.is_for(21));
  EXPECT_TRUE(RopeTable(40, 8, rope, 30).is_for(30));
  EXPECT_FALSE(RopeTable(40, 8, rope, 30).is_for(20));
}

}  // namespace
}  // namespace thinwire::tensor
