// What holds for the facts of every method.
#include "thinwire/method/registry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class EveryMethod : public testing::TestWithParam<const Method*> {
 protected:
  EveryMethod() {
    recipe_ =
        load_recipe("", std::vector<std::string>{"sync.method=" + std::string(GetParam()->name),
                                                 "model.vocab=300"});
    tensors_ = method::tensors_of(recipe_);
  }

  config::Recipe recipe_;
  std::vector<TensorSpec> tensors_;
};

INSTANTIATE_TEST_SUITE_P(Registry, EveryMethod,
                         testing::ValuesIn(all_methods().begin(), all_methods().end()),
                         [](const auto& method) { return std::string(method.param->name); });

TEST_P(EveryMethod, IsFoundByItsName) {
  EXPECT_EQ(&find_method(GetParam()->name), GetParam());
  EXPECT_TRUE(GetParam()->sentence.ends_with('.'));
}

TEST_P(EveryMethod, RecipeRoundTrips) {
  const std::string text = config::print_recipe(recipe_);
  const config::Recipe again = config::parse_recipe(text, "again", {}, method_sections());
  EXPECT_EQ(config::print_recipe(again), text);
}

TEST_P(EveryMethod, AloneSendsNothingThatAnybodyReceives) {
  EXPECT_EQ(GetParam()->traffic(recipe_, tensors_, 1).received_bytes, 0);
}

TEST_P(EveryMethod, WithOthersSendsAndReceives) {
  const Traffic traffic = GetParam()->traffic(recipe_, tensors_, 4);
  EXPECT_GT(traffic.sent_bytes, 0);
  EXPECT_GE(traffic.received_bytes, traffic.sent_bytes);
  EXPECT_GT(traffic.round_trips, 0);
}

TEST_P(EveryMethod, KeepsAState) {
  const StateBytes state = GetParam()->state(recipe_, tensors_);
  EXPECT_GT(state.consensus + state.local, 0);
}

TEST_P(EveryMethod, CountsLateContributionsOrSaysWhichMethodsDo) {
  const std::vector<std::string> fields = {"sync.method=" + std::string(GetParam()->name),
                                           "sync.late=count"};
  if (GetParam()->sums_late) {
    EXPECT_NO_THROW(load_recipe("", fields));
    return;
  }
  EXPECT_THAT(tests::error_of([&] { load_recipe("", fields); }),
              HasSubstr(fmt::format("[sync] late = \"count\" needs method = local_sgd or diloco or "
                                    "streaming or sparseloco, got \"{}\"",
                                    GetParam()->name)));
}

TEST(Registry, OnlyMeansHaveLateContributions) {
  const std::vector<std::string> fields = {"sync.method=diloco", "sync.late=count",
                                           "sync.aggregate=trimmed_mean"};
  EXPECT_THAT(
      tests::error_of([&] { load_recipe("", fields); }),
      HasSubstr("[sync] late = \"count\" needs aggregate = \"mean\", got \"trimmed_mean\""));
}

TEST(Registry, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Method* method : all_methods()) EXPECT_TRUE(names.insert(method->name).second);
}

TEST(Registry, UnknownMethodsGetTheListOfKnownOnes) {
  const fs::path path = fs::path(testing::TempDir()) / "unknown_method.toml";
  write_file(path, "[sync]\nmethod = \"telepathy\"\n");
  try {
    load_recipe(path, {});
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), StartsWith(path.string() + ": [sync] method must be one of "));
    EXPECT_THAT(error.what(), HasSubstr("allreduce"));
    EXPECT_THAT(error.what(), HasSubstr("got \"telepathy\""));
  }
}

TEST(Registry, ShippedRecipesResolveUnderEveryMethod) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator(tests::source_file("recipes"))) {
    EXPECT_NO_THROW(load_recipe(entry.path(), {})) << entry.path();
    for (const Method* method : all_methods()) {
      const std::vector<std::string> overrides = {"sync.method=" + std::string(method->name)};
      EXPECT_EQ(load_recipe(entry.path(), overrides).sync.method, method->name);
      ++count;
    }
  }
  EXPECT_GE(count, 26);
}

TEST(RingBytes, AreTwiceTheModelForManyMembers) {
  EXPECT_EQ(ring_bytes(1000, 1), 0);
  EXPECT_EQ(ring_bytes(1000, 4), 2 * 3.0 / 4 * 2000);
}

}  // namespace
}  // namespace thinwire::method
