#include "thinwire/eval/text_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thinwire::eval {
namespace {

using testing::ElementsAre;

TEST(TextRow, OneTextPredictsAtItsLastTokenOnly) {
  TextRow row;
  row.add(std::vector<int32_t>{5, 6, 7}, 1);
  EXPECT_THAT(row.tokens(), ElementsAre(5, 6, 7, 0));
  EXPECT_EQ(row.predictions(), 3);
  EXPECT_THAT(row.marks().weights, ElementsAre(0, 0, 1));
  EXPECT_THAT(row.marks().begins, ElementsAre(1, 0, 0));
}

// A text must see neither another one nor what is in the place of an earlier text's number.
TEST(TextRow, TextsAndTheirTargetsAreDocumentsOfTheirOwn) {
  TextRow row;
  row.add(std::vector<int32_t>{5, 6}, 4);
  row.add(std::vector<int32_t>{8}, 4);
  EXPECT_EQ(row.texts(), 2);
  EXPECT_THAT(row.tokens(), ElementsAre(5, 6, 0, 0, 0, 0, 8, 0, 0, 0, 0));
  EXPECT_EQ(row.predictions(), 10);
  EXPECT_THAT(row.marks().weights, ElementsAre(0, 1, 0, 0, 0, 0, 1, 0, 0, 0));
  EXPECT_THAT(row.marks().begins, ElementsAre(1, 0, 1, 0, 0, 0, 1, 1, 0, 0));
}

TEST(TextRow, TakesAFirstTextOfAnyLengthAndOthersThatFit) {
  TextRow row;
  EXPECT_TRUE(row.fits(9, 5));
  row.add(std::vector<int32_t>{5, 6}, 1);
  EXPECT_TRUE(row.fits(2, 5));
  EXPECT_FALSE(row.fits(3, 5));
}

}  // namespace
}  // namespace thinwire::eval
