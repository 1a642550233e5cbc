// Whether a plan does the same as a reference (function_plan.h).
#pragma once

#include <string>
#include <string_view>

#include "thinwire/eval/function_plan.h"

namespace thinwire::eval {

// Success as TinyAgent defines it: the plans' graphs, with a node for each call and an edge for
// each call whose result another one uses, are the same, and so are the tools. Other arguments do
// not count. Throws Error for plans that are too alike in too many ways to compare
// (labelled_graph.h); so does same_calls.
bool same_graph(const FunctionPlan& a, const FunctionPlan& b);

// In addition each call has the same arguments (call_arguments.h), with references at the same
// places to the calls that correspond.
bool same_calls(const FunctionPlan& a, const FunctionPlan& b);

struct PlanScore {
  bool graph = false;  // same_graph
  bool exact = false;  // same_calls
  std::string error;   // why the text is no plan, or cannot be compared; both are then false
};

// Any text has a score.
PlanScore score_plan(std::string_view text, const FunctionPlan& reference);

}  // namespace thinwire::eval
