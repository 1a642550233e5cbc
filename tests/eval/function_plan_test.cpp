#include "thinwire/eval/function_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "thinwire/base/error.h"

namespace thinwire::eval {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::ThrowsMessage;

constexpr const char* kPlan =
    "Thought: I need Ada's address first.\n"
    "1. get_email_address(\"Ada Lovelace\")\n"
    "\n"
    "2. get_zoom_meeting_link(\"Engines\", 60) # an hour\n"
    "Thought: now the message\n"
    "3. compose_new_email([\"$1\"], [], 'Engines', \"Join us: ${2} or write to $1\", [])\n"
    "4. join()<END_OF_PLAN>\n"
    "5. never(\"read\")\n";

std::vector<std::string> tools(const FunctionPlan& plan) {
  std::vector<std::string> names;
  for (const FunctionCall& call : plan.calls) names.push_back(call.tool);
  return names;
}

// A plan's last call, and its arguments.
FunctionCall last_call(const std::string& text) { return parse_plan(text).calls.back(); }
std::string arguments(const std::string& text) {
  return last_call("1. a()\n2. b(" + text + ")").arguments;
}

void expect_error(const std::string& text, const std::string& message) {
  EXPECT_THAT([&] { parse_plan(text); }, ThrowsMessage<Error>(HasSubstr(message))) << text;
}

TEST(FunctionPlan, CallsAreLinesAndAllElseIsIgnored) {
  const FunctionPlan plan = parse_plan(kPlan);
  EXPECT_THAT(tools(plan), ElementsAre("get_email_address", "get_zoom_meeting_link",
                                       "compose_new_email", "join"));
  EXPECT_THAT(plan.calls[0].references, IsEmpty());
  EXPECT_THAT(plan.calls[2].references, ElementsAre(0, 1, 0));
}

TEST(FunctionPlan, EndsAtTheMarkAfterJoinOrWithTheText) {
  EXPECT_THAT(tools(parse_plan("1. a()\n  <END_OF_PLAN>\n2. b()")), ElementsAre("a"));
  EXPECT_THAT(tools(parse_plan("1. a() <END_OF_PLAN>\n2. b()")), ElementsAre("a"));
  EXPECT_THAT(tools(parse_plan("1. join()\n1. b(")), ElementsAre("join"));
  EXPECT_THAT(tools(parse_plan("1. a()\r\n 2.b()\r\n")), ElementsAre("a", "b"));
  EXPECT_THAT(tools(parse_plan("1. First, a\n2. a()\n3.5 (b)")), ElementsAre("a"));
}

TEST(FunctionPlan, ReferencesFollowNumbersNotPlaces) {
  EXPECT_THAT(last_call("3. a()\n7. b($3)\n9. c($7, $3)").references, ElementsAre(1, 0));
}

TEST(FunctionPlan, ReferencesInAnyValue) {
  EXPECT_THAT(last_call("1. a()\n2. b([('$1',), {'x': ${1}}], \"on $1!\", to=$1)").references,
              ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(last_call("1. a()\n2. b({'$1': 2})").references, IsEmpty());  // keys are literal
}

TEST(FunctionPlan, WithinATextOnlyEarlierCallsAreReferences) {
  EXPECT_THAT(last_call("1. a()\n2. b('it costs $50, or $2 with $1')").references, ElementsAre(0));
  EXPECT_EQ(arguments("'costs $50'"), R"("costs $50",)");
}

TEST(FunctionPlan, ArgumentsThatMeanTheSameAreTheSame) {
  EXPECT_EQ(arguments("'x', 2"), arguments(" \"x\" ,\t2.0, "));
  EXPECT_EQ(arguments("'x'"), arguments("\" x\\n\""));
  EXPECT_EQ(arguments("'x'"), arguments("'''x'''"));
  EXPECT_EQ(arguments("'two words'"), arguments("two words"));
  EXPECT_EQ(arguments("60, -5, 0"), arguments("6e1, -05.0, -0.0"));
  EXPECT_EQ(arguments("True, None"), arguments("true, null"));
  EXPECT_EQ(arguments("[1, [2]]"), arguments("(1, (2,))"));
  EXPECT_EQ(arguments("('x')"), arguments("'x'"));
  EXPECT_EQ(arguments("{'a': 1, 'b': 2}"), arguments("{\"b\": 2, 'a': 1,}"));
  EXPECT_EQ(arguments("1, a=2, b=3"), arguments("1, b = 3, a=2"));
  EXPECT_EQ(arguments("'$1'"), arguments("${1}"));
  EXPECT_EQ(arguments(R"('it\'s "so" \\ \t.')"), arguments(R"("it's \"so\" \\ \x09.")"));
  EXPECT_EQ(arguments(R"('\u00e9\ud83d\ude00')"), arguments("'\xC3\xA9\xF0\x9F\x98\x80'"));
}

TEST(FunctionPlan, ArgumentsThatDifferAreDifferent) {
  const std::vector<std::string> all = {"",
                                        "'1'",
                                        "1",
                                        "1, 1",
                                        "[1]",
                                        "[1, 1]",
                                        "[[1]]",
                                        "'1, 1'",
                                        "a=1",
                                        "b=1",
                                        "{'a': 1}",
                                        "{a: '1'}",
                                        "'$1'",
                                        "'x $1'",
                                        "'x \\\\$1'",
                                        "'\\\\$'",
                                        "'$'",
                                        "'A'",
                                        "'a'",
                                        "'True'",
                                        "True",
                                        "['1', '1']",
                                        "'\"'",
                                        "'\\\\\"'",
                                        "'a', 'b'",
                                        "'a\",\"b'",
                                        "[]",
                                        "{}",
                                        "'\\d'",
                                        "1e300",
                                        "'1e300'",
                                        "12345678901234567890",
                                        "12345678901234567891"};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(arguments(all[i]), arguments(all[j])) << i << " " << j;
  }
}

TEST(FunctionPlan, WrongNumbersAreErrors) {
  expect_error("", "the plan has no calls");
  expect_error("Thought: nothing to do\njoin()", "the plan has no calls");
  expect_error("0. a()", "the first call is number 1");
  expect_error("1. a()\n2. b()\n1. c()", "call 1 appears twice");
  expect_error("1. a()\n3. b()\n2. c()", "call 2 comes after call 3");
  expect_error("12345678901. a()", "the number is too large");
}

TEST(FunctionPlan, WrongReferencesAreErrors) {
  expect_error("1. a()\n2. b($9)", "call 2, b: $9 refers to no earlier call");
  expect_error("1. a('$1')", "$1 refers to no earlier call");                   // itself
  expect_error("1. a($2)\n2. b()", "call 1, a: $2 refers to no earlier call");  // forward
  expect_error("1. a([\"$2\"])\n2. b($1)", "call 1, a: $2 refers to");          // a cycle
}

TEST(FunctionPlan, WrongArgumentsAreErrors) {
  expect_error("1. a(\"x)", "call 1, a: a \" is missing");
  expect_error("1. a('''x')", "a ''' is missing");
  expect_error("1. a('x'", "a ')' is missing");
  expect_error("1. a('x',", "a ')' is missing");
  expect_error("1. a(['x')", "expected ',' or ']' before ')'");
  expect_error("1. a('x'))", "expected nothing after the call, found ')'");
  expect_error("1. a('x' 'y')", "expected ',' or ')' before ''y')'");
  expect_error("1. a(,)", "expected a value before ',)'");
  expect_error("1. a(b(1))", "expected a value without '(1))' in it, or in quotes");
  expect_error("1. a(f\"x\")", "or in quotes");
  expect_error("1. a({'x'})", "expected ':' after the key \"x\"");
  expect_error("1. a({'x': 1, 'x': 2})", "the key \"x\" is given twice");
  expect_error("1. a(x=1, x=2)", "x is given twice");
  expect_error("1. a(x=1, 2)", "a positional argument follows a keyword argument");
  expect_error("1. a(\"x\ny\")", "a \" is missing");  // a call is one line
}

TEST(FunctionPlan, HasLimits) {
  std::string many, deep(40, '[');
  for (int i = 1; i <= 101; ++i) many += std::to_string(i) + ". a()\n";
  expect_error(many, "the plan has more than 100 calls");
  expect_error("1. a(" + deep, "nested more than 32 deep");
  expect_error(std::string(70'000, ' '), "longer than 65536 bytes");
}

// Every beginning of a plan, and every plan with one byte changed, is a plan or an error.
TEST(FunctionPlan, AnyTextGivesAPlanOrAnError) {
  const std::string plan = kPlan;
  const auto parse = [](const std::string& text) {
    try {
      return parse_plan(text).calls.size();
    } catch (const Error&) {
      return size_t{0};
    }
  };
  for (size_t i = 0; i < plan.size(); ++i) {
    EXPECT_LE(parse(plan.substr(0, i)), 4u);
    for (const char c : {'"', '\\', '(', ')', '[', '$', '\0', '\xFF', ','}) {
      std::string changed = plan;
      changed[i] = c;
      EXPECT_LE(parse(changed), 5u);
    }
  }
}

}  // namespace
}  // namespace thinwire::eval
