// Every field of a recipe gets absurd values: either the recipe is refused, with a message that
// names the field, or what is predicted of its run is finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "thinwire/base/error.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/method/registry.h"
#include "thinwire/plan/method_cost.h"

namespace thinwire::plan {
namespace {

const std::vector<std::string> kAbsurd = {
    "0", "-1",  "nan", "inf", "-inf", "1e300", "-1e300", "1e-300", "9223372036854775808",
    "",  "text"};

void expect_finite(config::Recipe recipe, const std::string& shown) {
  const PlannedModel model = planned_model(recipe);
  const Member member = {
      "every member", "", recipe.train.workers, 1e12, 0, {1e7, 1e8, 0.02, 0}, 0, 0};
  const MethodCost cost = method_cost({recipe.sync.method, "", recipe, {}}, {&member, 1}, {}, 0);
  for (const double value : {cost.seconds, cost.step_seconds, cost.sent_bytes, cost.received_bytes,
                             cost.utilization, cost.loss.nats.value_or(0), cost.memory.total(),
                             cost.peak_bit_s, method::run_memory(recipe, 1).total()}) {
    EXPECT_TRUE(std::isfinite(value) && value >= 0) << shown << ": " << value;
  }
}

TEST(RecipeFields, TakeNothingAbsurd) {
  config::Recipe recipe;
  recipe.methods = method::method_sections();
  int tried = 0;
  for (const auto& [table, section] : recipe.sections()) {
    config::Fields fields;
    section->describe(fields);
    for (const config::Field& field : fields.all()) {
      for (const std::string& value : kAbsurd) {
        std::vector<std::string> overrides = {fmt::format("{}.{}={}", table, field.name, value)};
        if (recipe.methods.contains(table)) {
          overrides.push_back(fmt::format("{}={}", section->chosen_by(), table));
        }
        if (table == "roberta") overrides.emplace_back("data.records=labels");
        ++tried;
        try {
          expect_finite(method::load_recipe({}, overrides), overrides.front());
        } catch (const UsageError& error) {
          EXPECT_THAT(error.what(), testing::HasSubstr(field.name)) << overrides.front();
        }
      }
    }
  }
  EXPECT_GT(tried, 1000);
}

}  // namespace
}  // namespace thinwire::plan
