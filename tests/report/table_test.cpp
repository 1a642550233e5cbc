#include "thinwire/report/table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thinwire::report {
namespace {

Table example() {
  return {{{"method", true}, {"validation\nloss"}, {"ratio"}},
          {{"allreduce", "4.123", "1.00"}, {"di|stro, \"k\"", "4.2", "–"}}};
}

TEST(Table, AlignsColumnsOnATerminal) {
  EXPECT_EQ(example().terminal(),
            "              validation\n"
            "method              loss  ratio\n"
            "------------  ----------  -----\n"
            "allreduce          4.123   1.00\n"
            "di|stro, \"k\"         4.2      –\n");
}

TEST(Table, EscapesWhatMarkdownWouldTakeForABorder) {
  EXPECT_EQ(example().markdown(),
            "| method | validation loss | ratio |\n"
            "| :-- | --: | --: |\n"
            "| allreduce | 4.123 | 1.00 |\n"
            "| di\\|stro, \"k\" | 4.2 | – |\n");
}

TEST(Table, QuotesWhatCsvNeedsQuoted) {
  EXPECT_EQ(example().csv(),
            "method,\"validation\nloss\",ratio\n"
            "allreduce,4.123,1.00\n"
            "\"di|stro, \"\"k\"\"\",4.2,–\n");
}

TEST(Cells, ShowNumbersInAFewDigitsAndADashForNone) {
  EXPECT_EQ(number_cell(4.12345, 3), "4.123");
  EXPECT_EQ(number_cell(std::nan(""), 3), "–");
  EXPECT_EQ(ratio_cell(0.5), "0.50");
  EXPECT_EQ(ratio_cell(52.64), "52.6");
  EXPECT_EQ(ratio_cell(1839.6), "1840");
  EXPECT_EQ(ratio_cell(0), "–");
  EXPECT_EQ(exact_cell(0.1), "0.1");
  EXPECT_EQ(exact_cell(INFINITY), "");
}

}  // namespace
}  // namespace thinwire::report
