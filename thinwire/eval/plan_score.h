// Whether a plan does the same as a reference (function_plan.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/eval/function_plan.h"

namespace thinwire::eval {

// Directed graphs with labels on nodes and edges, and whether two are the same but for the order of
// their nodes.
struct LabelledGraph {
  struct Edge {
    size_t from = 0;  // a node
    size_t label = 0;
  };
  struct Node {
    std::string label;
    std::vector<Edge> edges;  // that lead here; equal ones count as often as they appear
  };
  std::vector<Node> nodes;
};

// Whether there is a one-to-one mapping of nodes under which labels and edges are the same. Exact:
// nodes are told apart by their labels and, round by round, by those of their neighbours (colour
// refinement); where some remain alike, each possible partner of one of them is tried. Throws Error
// where this takes more than 5 million steps, which happens for graphs made to be hard only.
bool isomorphic(const LabelledGraph& a, const LabelledGraph& b);

// Success as TinyAgent defines it: the plans' graphs, with a node for each call and an edge for
// each call whose result another one uses, are the same, and so are the tools. Other arguments do
// not count. Throws Error for plans that are too alike in too many ways to compare
// (LabelledGraph); so does same_calls.
bool same_graph(const FunctionPlan& a, const FunctionPlan& b);

// In addition each call has the same arguments (function_plan.h), with references at the same
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
