// Fields whose values are those of an enumeration.
#include "thinwire/config/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"

namespace thinwire::config {

enum class Bird : uint8_t { kPigeon, kSwift, kOwl };
inline constexpr std::string_view kBirdNames[] = {"pigeon", "swift", "owl"};
constexpr std::span<const std::string_view> names_of(Bird) { return kBirdNames; }

namespace {

using testing::ElementsAre;

struct Birds {
  Bird any = Bird::kSwift;
  Bird fast = Bird::kSwift;

  std::vector<Field> fields() {
    Fields fields;
    fields.choice("any", any, "A bird.");
    fields.choice("fast", fast, {Bird::kSwift, Bird::kPigeon}, "A fast bird.");
    return fields.all();
  }
};

TEST(EnumerationField, TakesTheNamesOfItsChoices) {
  Birds birds;
  const std::vector<Field> fields = birds.fields();
  EXPECT_THAT(fields[0].choices, ElementsAre("pigeon", "swift", "owl"));
  EXPECT_THAT(fields[1].choices, ElementsAre("swift", "pigeon"));
  assign(fields[0], "birds", std::string("owl"));
  assign(fields[1], "birds", std::string("pigeon"));
  EXPECT_EQ(birds.any, Bird::kOwl);
  EXPECT_EQ(birds.fast, Bird::kPigeon);
}

TEST(EnumerationField, IsPrintedAndNamedAsAText) {
  Birds birds;
  const Field field = birds.fields().front();
  EXPECT_EQ(print_value(field), "\"swift\"");
  EXPECT_EQ(plain_value(field), "swift");
  EXPECT_EQ(type_name(field), "text");
}

TEST(EnumerationField, RefusesOtherTextsAndTypes) {
  Birds birds;
  const std::vector<Field> fields = birds.fields();
  const auto refusal = [](const Field& field, const Value& value) -> std::string {
    try {
      assign(field, "birds", value);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(fields[0], std::string("pigeons")),
            "[birds] any must be one of pigeon, swift, owl, got \"pigeons\"; did you mean pigeon?");
  EXPECT_EQ(refusal(fields[1], std::string("owl")),
            "[birds] fast must be one of swift, pigeon, got \"owl\"");
  EXPECT_EQ(refusal(fields[0], int64_t{2}), "[birds] any must be a text, got the integer 2");
  EXPECT_EQ(birds.any, Bird::kSwift);
}

}  // namespace
}  // namespace thinwire::config
