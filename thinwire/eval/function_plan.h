// Plans of function calls, as LLMCompiler's planner writes them (Kim et al. 2023, arXiv 2312.04511)
// and TinyAgent learns them (Erdogan et al. 2024, arXiv 2409.00608):
//
//   1. get_email_address("Ada Lovelace")
//   2. get_zoom_meeting_link("Engines", 60)
//   3. compose_new_email(["$1"], [], "Engines", "Join us: $2", [])
//   4. join()<END_OF_PLAN>
//
// A call is a line of its own: its number, a full stop, the tool's name, arguments in brackets
// (call_arguments.h), then perhaps <END_OF_PLAN> or a comment after "#". Numbers increase. Lines
// that do not begin like a call (thoughts, empty lines, prose) are not part of the plan. The plan
// ends at <END_OF_PLAN>, after a call of `join`, or with the text. `join` is a call like others, as
// in TinyAgent's own evaluation, so a plan that was cut off before it differs from one that was
// not.
//
// `$k` or `${k}` stands for the result of call k. Only results of earlier calls can be used, so a
// plan has no cycles.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::eval {

struct FunctionCall {
  int number = 0;
  std::string tool;
  std::string arguments;           // normalized (call_arguments.h)
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

}  // namespace thinwire::eval
