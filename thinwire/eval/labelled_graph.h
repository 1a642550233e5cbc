// Directed graphs with labels on nodes and edges, and whether two are the same but for the order of
// their nodes.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace thinwire::eval {

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

}  // namespace thinwire::eval
