#include "thinwire/eval/plan_score.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "thinwire/base/error.h"

namespace thinwire::eval {
namespace {

constexpr size_t kMostSteps = 5'000'000;

// One for each node of both graphs, those of the second after those of the first: nodes that may
// correspond have the same colour.
using Colours = std::vector<size_t>;

struct Neighbour {
  size_t node;
  bool before;  // the edge comes from there
  size_t label;
};

class Comparison {
 public:
  // Graphs with equally many nodes.
  Comparison(const LabelledGraph& a, const LabelledGraph& b)
      : size_(a.nodes.size()), neighbours_(2 * size_) {
    add_edges(a, 0);
    add_edges(b, size_);
  }

  // Whether some mapping only maps nodes to those of the same colour.
  bool find_mapping(Colours colours) {
    const size_t count = refine(colours);
    std::vector<std::vector<size_t>> first(count), second(count);  // nodes by colour
    for (size_t i = 0; i < size_; ++i) first[colours[i]].push_back(i);
    for (size_t i = size_; i < 2 * size_; ++i) second[colours[i]].push_back(i);
    size_t chosen = count;  // the fewest nodes that are alike
    for (size_t colour = 0; colour < count; ++colour) {
      if (first[colour].size() != second[colour].size()) return false;
      if (first[colour].size() < 2) continue;
      if (chosen == count || first[colour].size() < first[chosen].size()) chosen = colour;
    }
    // Each node has a colour of its own, and the same neighbours as the other one of that colour.
    if (chosen == count) return true;
    for (const size_t partner : second[chosen]) {
      Colours tried = colours;
      tried[first[chosen].front()] = tried[partner] = count;
      if (find_mapping(std::move(tried))) return true;
    }
    return false;
  }

 private:
  void add_edges(const LabelledGraph& graph, size_t offset) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const LabelledGraph::Edge& edge : graph.nodes[i].edges) {
        neighbours_[offset + i].push_back({offset + edge.from, true, edge.label});
        neighbours_[offset + edge.from].push_back({offset + i, false, edge.label});
      }
    }
  }

  // Gives nodes whose neighbours differ different colours until none is left; returns their number.
  size_t refine(Colours& colours) {
    using Seen = std::tuple<bool, size_t, size_t>;  // before, label, colour
    for (size_t count = 0;;) {
      std::map<std::pair<size_t, std::vector<Seen>>, size_t> names;
      Colours finer;
      for (size_t i = 0; i < colours.size(); ++i) {
        std::vector<Seen> seen;
        for (const Neighbour& n : neighbours_[i]) {
          seen.emplace_back(n.before, n.label, colours[n.node]);
        }
        count_steps(seen.size() + 1);
        std::ranges::sort(seen);
        const auto name = names.try_emplace({colours[i], std::move(seen)}, names.size()).first;
        finer.push_back(name->second);
      }
      colours = std::move(finer);
      if (names.size() == count) return count;
      count = names.size();
    }
  }

  void count_steps(size_t more) {
    steps_ += more;
    if (steps_ <= kMostSteps) return;
    throw Error(fmt::format("the graphs cannot be compared in {} steps", kMostSteps));
  }

  size_t size_;
  std::vector<std::vector<Neighbour>> neighbours_;
  size_t steps_ = 0;
};

}  // namespace

bool isomorphic(const LabelledGraph& a, const LabelledGraph& b) {
  if (a.nodes.size() != b.nodes.size()) return false;
  std::map<std::string, size_t> labels;
  Colours colours;
  for (const LabelledGraph* graph : {&a, &b}) {
    for (const LabelledGraph::Node& node : graph->nodes) {
      colours.push_back(labels.try_emplace(node.label, labels.size()).first->second);
    }
  }
  return Comparison(a, b).find_mapping(std::move(colours));
}

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
