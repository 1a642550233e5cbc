#include "thinwire/eval/plan_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace thinwire::eval {
namespace {

constexpr const char* kReference =
    "1. get_email_address(\"Ada\")\n"
    "2. get_email_address(\"Charles\")\n"
    "3. create_note(\"Engines\", \"Bring $50\")\n"
    "4. compose_new_email([\"$1\", \"$2\"], \"Engines\", \"See $3\")\n"
    "5. join()<END_OF_PLAN>";

PlanScore score(const std::string& text, const std::string& reference = kReference) {
  return score_plan(text, parse_plan(reference));
}

void expect_score(const PlanScore& score, bool graph, bool exact) {
  EXPECT_EQ(score.graph, graph);
  EXPECT_EQ(score.exact, exact);
  EXPECT_EQ(score.error, "");
}

TEST(PlanScore, AReorderedPlanIsExact) {
  expect_score(score(kReference), true, true);
  expect_score(score("Thought: the note first\n"
                     "1. create_note('Engines', 'Bring $50')\n"
                     "2. get_email_address('Charles')\n"
                     "3. get_email_address('Ada')\n"
                     "4. compose_new_email([$3, $2], 'Engines', 'See ${1}')\n"
                     "9. join()"),
               true, true);
}

TEST(PlanScore, OtherArgumentsAreTheSameGraph) {
  expect_score(score("1. get_email_address('Ada')\n"
                     "2. get_email_address('Grace')\n"
                     "3. create_note()\n"
                     "4. compose_new_email('$1 $2 $2', $3)\n"
                     "5. join()"),
               true, false);
}

TEST(PlanScore, ReferencesCorrespondThroughTheWholePlan) {
  // Ada and Charles change places in the message, though each call is like one of the reference.
  expect_score(score("1. get_email_address('Charles')\n"
                     "2. get_email_address('Ada')\n"
                     "3. create_note('Engines', 'Bring $50')\n"
                     "4. compose_new_email(['$1', '$2'], 'Engines', 'See $3')\n"
                     "5. join()"),
               true, false);
  const std::string chain = "1. a()\n2. a()\n3. b($1)\n4. b($2)\n5. c($3, $4)\n6. d($1)";
  expect_score(score("1. a()\n2. a()\n3. b($2)\n4. b($1)\n5. c($4, $3)\n6. d($1)", chain), true,
               true);
  expect_score(score("1. a()\n2. a()\n3. b($2)\n4. b($1)\n5. c($3, $4)\n6. d($1)", chain), true,
               false);
}

TEST(PlanScore, OtherToolsOrEdgesAreAnotherGraph) {
  const std::string reference = "1. a()\n2. b()\n3. c($1)";
  expect_score(score("1. a()\n2. b()\n3. c($2)", reference), false, false);
  expect_score(score("1. a()\n2. b()\n3. c('x')", reference), false, false);
  expect_score(score("1. a()\n2. b()\n3. c($1, $2)", reference), false, false);
  expect_score(score("1. a()\n2. e()\n3. c($1)", reference), false, false);
  expect_score(score("1. a()\n2. c($1)", reference), false, false);
  expect_score(score("1. a()\n2. b()\n3. c($1)\n4. join()", reference), false, false);
}

TEST(PlanScore, ATextThatIsNoPlanSaysWhy) {
  const PlanScore none = score("1. get_email_address(\"Ada");
  EXPECT_FALSE(none.graph);
  EXPECT_FALSE(none.exact);
  EXPECT_THAT(none.error, testing::HasSubstr("call 1, get_email_address: a \" is missing"));
  EXPECT_EQ(score("").error, "the plan has no calls");
}

}  // namespace
}  // namespace thinwire::eval
