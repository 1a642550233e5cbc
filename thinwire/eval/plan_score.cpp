#include "thinwire/eval/plan_score.h"

#include <set>

#include "thinwire/base/error.h"
#include "thinwire/eval/labelled_graph.h"

namespace thinwire::eval {
namespace {

// An edge for each call that another one uses, however often.
LabelledGraph graph_of_tools(const FunctionPlan& plan) {
  LabelledGraph graph;
  for (const FunctionCall& call : plan.calls) {
    LabelledGraph::Node& node = graph.nodes.emplace_back();
    node.label = call.tool;
    for (const size_t used : std::set(call.references.begin(), call.references.end())) {
      node.edges.push_back({used, 0});
    }
  }
  return graph;
}

// An edge for each reference, labelled by its place among the call's references.
LabelledGraph graph_of_calls(const FunctionPlan& plan) {
  LabelledGraph graph;
  for (const FunctionCall& call : plan.calls) {
    LabelledGraph::Node& node = graph.nodes.emplace_back();
    node.label = call.tool + "(" + call.arguments + ")";
    for (size_t i = 0; i < call.references.size(); ++i) {
      node.edges.push_back({call.references[i], i});
    }
  }
  return graph;
}

}  // namespace

bool same_graph(const FunctionPlan& a, const FunctionPlan& b) {
  return isomorphic(graph_of_tools(a), graph_of_tools(b));
}

bool same_calls(const FunctionPlan& a, const FunctionPlan& b) {
  return isomorphic(graph_of_calls(a), graph_of_calls(b));
}

PlanScore score_plan(std::string_view text, const FunctionPlan& reference) {
  PlanScore score;
  try {
    const FunctionPlan plan = parse_plan(text);
    score.graph = same_graph(plan, reference);
    score.exact = score.graph && same_calls(plan, reference);
  } catch (const Error& error) {
    score = {false, false, error.what()};
  }
  return score;
}

}  // namespace thinwire::eval
