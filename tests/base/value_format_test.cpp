#include <gtest/gtest.h>

#include "thinwire/base/names.h"
#include "thinwire/base/payload_format.h"

namespace thinwire {
namespace {

TEST(ValueFormat, IsFoundByItsName) {
  for (const std::string_view name : kValueFormatNames) {
    EXPECT_EQ(name_of(value_named<ValueFormat>(name).value()), name);
  }
  EXPECT_EQ(value_named<ValueFormat>("int8"), ValueFormat::kInt8);
  EXPECT_EQ(value_named<ValueFormat>("fp8"), std::nullopt);
}

TEST(ValueFormat, ValuesTakeWholeBytes) {
  EXPECT_EQ(value_bytes(ValueFormat::kF32, 3), 12u);
  EXPECT_EQ(value_bytes(ValueFormat::kBf16, 3), 6u);
  EXPECT_EQ(value_bytes(ValueFormat::kInt8, 3), 3u);
  EXPECT_EQ(value_bytes(ValueFormat::kOneBit, 9), 2u);
  EXPECT_EQ(value_bytes(ValueFormat::kTwoBit, 5), 2u);
  EXPECT_EQ(value_bytes(ValueFormat::kTwoBit, 0), 0u);
}

}  // namespace
}  // namespace thinwire
