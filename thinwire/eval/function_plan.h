// Plans of function calls, as LLMCompiler's planner writes them (Kim et al. 2023, arXiv 2312.04511)
// and TinyAgent learns them (Erdogan et al. 2024, arXiv 2409.00608):
//
//   1. get_email_address("Ada Lovelace")
//   2. get_zoom_meeting_link("Engines", 60)
//   3. compose_new_email(["$1"], [], "Engines", "Join us: $2", [])
//   4. join()<END_OF_PLAN>
//
// A call is a line of its own: its number, a full stop, the tool's name, arguments in brackets
// (below), then perhaps <END_OF_PLAN> or a comment after "#". Numbers increase. Lines
// that do not begin like a call (thoughts, empty lines, prose) are not part of the plan. The plan
// ends at <END_OF_PLAN>, after a call of `join`, or with the text. `join` is a call like others, as
// in TinyAgent's own evaluation, so a plan that was cut off before it differs from one that was
// not.
//
// `$k` or `${k}` stands for the result of call k. Only results of earlier calls can be used, so a
// plan has no cycles.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::eval {

struct FunctionCall {
  int number = 0;
  std::string tool;
  std::string arguments;           // normalized (normalize_arguments)
  std::vector<size_t> references;  // places in FunctionPlan::calls, in the order of the arguments
};

struct FunctionPlan {
  std::vector<FunctionCall> calls;
};

inline constexpr size_t kLongestPlan = size_t{1} << 16;  // bytes
inline constexpr size_t kMostCalls = 100;

// Any text gives a plan or an error. Throws Error naming the call, for: no calls at all; a number
// that appears twice or is below one before it; a reference to the call itself or to one that is
// not earlier; wrong arguments, quotes or brackets; and a text that is longer or has more calls
// than the limits.
FunctionPlan parse_plan(std::string_view text);

// The arguments of a call in a plan (function_plan.h), in a form in which those that mean the same
// are the same text.
//
// Values are written as in Python: texts in single, double or triple quotes, with escapes; numbers;
// True, False, None; lists, tuples and dictionaries. `name=value` is a keyword argument. Words
// without quotes are a text, too. There are no expressions: operators, nested calls, f-strings.
//
// A value that is `$k` or `${k}`, with or without quotes, is a reference to call k, which must be
// an earlier one. Within a longer text it is a reference if call k is an earlier one; if not, it is
// text, such as an amount of money.
//
// Normalized:
// * texts: without quotes' kind, escapes, and white space at their beginning and end
// * numbers: by value (60, 60.0 and 6e1 are the same), and never the same as a text
// * True and true; None and null; tuples and lists
// * keyword arguments: ordered by name, after the positional ones, whose order counts. A keyword
//   argument is never the same as a positional one, because a plan does not say what parameters a
//   tool has.
// * dictionaries: ordered by key. Keys are without references.
// * references: which call is meant is listed apart from the text
struct CallArguments {
  std::string text;             // normalized
  std::vector<int> references;  // the numbers of calls, in the text's order
  size_t end = 0;               // of what was read: the place after the closing bracket
};

// The arguments that begin at `begin` in a line, after the opening bracket. is_earlier says whether
// an earlier call has a number. Throws Error for what is not written like that, for a name or key
// that appears twice, and for lists in more than 32 others.
CallArguments read_arguments(std::string_view line, size_t begin,
                             const std::function<bool(int)>& is_earlier);

}  // namespace thinwire::eval
