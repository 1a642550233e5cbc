#include "thinwire/hosts/store_need.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/errors.h"
#include "thinwire/base/units.h"
#include "thinwire/method/registry.h"

namespace thinwire::hosts {
namespace {

using testing::AllOf;
using testing::HasSubstr;

config::Recipe recipe_with(std::vector<std::string> fields) {
  fields.insert(fields.end(), {"model.vocab=64", "sync.method=allreduce", "allreduce.wire=fp32",
                               "train.workers=3", "train.batch=6"});
  return method::load_recipe("", fields);
}

TEST(StoreNeed, IsThePayloadsOfTwoHundredRoundsAndThreeSetsOfWeights) {
  const StoreNeed few = store_need(recipe_with({"train.steps=10"}));
  const StoreNeed many = store_need(recipe_with({"train.steps=1000"}));
  const StoreNeed more = store_need(recipe_with({"train.steps=2000"}));
  EXPECT_GT(few.snapshots, 0);
  EXPECT_GE(few.payloads, 10 * 3 * few.snapshots * 0.9)
      << "a sum's part is as large as the weights";
  EXPECT_NEAR(many.payloads, 20 * few.payloads, 0.01 * many.payloads);
  EXPECT_EQ(more.payloads, many.payloads);
  EXPECT_GE(many.snapshots, 3 * few.snapshots) << "weights and what the optimizer keeps";
}

TEST(StoreNeed, ThatNoDiskHasIsRefusedWithBothFigures) {
  const auto huge = recipe_with({"train.steps=1000", "model.hidden=65536", "model.layers=64"});
  EXPECT_THAT(tests::error_of([&] { (void)check_room_for_store(huge, testing::TempDir(), 0); }),
              AllOf(HasSubstr("takes up to"), HasSubstr("has only"), HasSubstr("plan --hosts")));
  const auto small = recipe_with({"train.steps=10", "model.hidden=16", "model.layers=1"});
  EXPECT_THAT(check_room_for_store(small, testing::TempDir(), 0), HasSubstr(" are free"));
  EXPECT_THAT(check_room_for_store(small, testing::TempDir(), 5e6),
              HasSubstr(", and " + format_bytes(5e6) + " of data and base for members"));
  EXPECT_THAT(tests::error_of([&] { (void)check_room_for_store(small, testing::TempDir(), 1e18); }),
              HasSubstr("has only"));
}

}  // namespace
}  // namespace thinwire::hosts
