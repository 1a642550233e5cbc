#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/eval/plan_score.h"

namespace thinwire::eval {
namespace {

using Order = std::vector<size_t>;

// Node i of the graph becomes node order[i].
LabelledGraph reorder(const LabelledGraph& graph, const Order& order) {
  LabelledGraph result;
  result.nodes.resize(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    LabelledGraph::Node& node = result.nodes[order[i]];
    node = graph.nodes[i];
    for (LabelledGraph::Edge& edge : node.edges) edge.from = order[edge.from];
  }
  return result;
}

bool equal(const LabelledGraph& a, const LabelledGraph& b) {
  const auto facts = [](const LabelledGraph::Node& node) {
    std::vector<std::pair<size_t, size_t>> edges;
    for (const auto& edge : node.edges) edges.emplace_back(edge.from, edge.label);
    std::ranges::sort(edges);
    return std::pair(node.label, edges);
  };
  return std::ranges::equal(a.nodes, b.nodes, {}, facts, facts);
}

// By trying every order of the nodes.
bool isomorphic_by_force(const LabelledGraph& a, const LabelledGraph& b) {
  if (a.nodes.size() != b.nodes.size()) return false;
  Order order(a.nodes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  do {
    if (equal(reorder(a, order), b)) return true;
  } while (std::ranges::next_permutation(order).found);
  return false;
}

size_t below(Rng& rng, size_t limit) { return static_cast<size_t>(rng.below(limit)); }

// With edges from earlier nodes only, as in a plan.
LabelledGraph random_graph(Rng& rng, size_t nodes, size_t labels) {
  LabelledGraph graph;
  for (size_t i = 0; i < nodes; ++i) {
    LabelledGraph::Node& node = graph.nodes.emplace_back();
    node.label = std::string(1, static_cast<char>('a' + below(rng, labels)));
    for (size_t from = 0; from < i; ++from) {
      if (below(rng, 5) < 2) node.edges.push_back({from, below(rng, labels)});
    }
  }
  return graph;
}

Order random_order(Rng& rng, size_t size) {
  Order order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = size; i > 1; --i) std::swap(order[i - 1], order[below(rng, i)]);
  return order;
}

// Rings of these sizes, each of which alternates between nodes with two edges out and two in.
LabelledGraph rings(const std::vector<size_t>& sizes) {
  LabelledGraph graph;
  for (const size_t size : sizes) {
    const size_t first = graph.nodes.size();
    for (size_t i = 0; i < size; ++i) {
      LabelledGraph::Node& node = graph.nodes.emplace_back();
      node.label = "a";
      if (i % 2 == 1) node.edges = {{first + i - 1, 0}, {first + (i + 1) % size, 0}};
    }
  }
  return graph;
}

TEST(LabelledGraph, AgreesWithTryingEveryOrder) {
  Rng rng(7, 0);
  int same = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    const size_t size = below(rng, 6), labels = 1 + below(rng, 2);
    const LabelledGraph a = random_graph(rng, size, labels), b = random_graph(rng, size, labels);
    const bool expected = isomorphic_by_force(a, b);
    EXPECT_EQ(isomorphic(a, b), expected);
    same += expected ? 1 : 0;
  }
  EXPECT_GT(same, 200);
  EXPECT_LT(same, 1800);
}

TEST(LabelledGraph, AReorderedGraphIsTheSameAndAChangedOneIsNot) {
  Rng rng(8, 0);
  for (int trial = 0; trial < 200; ++trial) {
    const size_t size = 2 + below(rng, 30);
    const LabelledGraph a = random_graph(rng, size, 2);
    LabelledGraph b = reorder(a, random_order(rng, size));
    EXPECT_TRUE(isomorphic(a, b));
    b.nodes[below(rng, size)].edges.push_back({0, 0});
    EXPECT_FALSE(isomorphic(a, b));
  }
}

TEST(LabelledGraph, LabelsAndDirectionsOfEdgesCount) {
  const LabelledGraph a{{{"x", {}}, {"x", {{0, 1}}}}};
  EXPECT_TRUE(isomorphic(a, {{{"x", {{1, 1}}}, {"x", {}}}}));
  EXPECT_FALSE(isomorphic(a, {{{"x", {}}, {"x", {{0, 2}}}}}));
  const LabelledGraph down{{{"x", {}}, {"y", {{0, 0}}}}}, up{{{"y", {}}, {"x", {{0, 0}}}}};
  EXPECT_FALSE(isomorphic(down, up));
  EXPECT_TRUE(isomorphic({}, {}));
}

// Colour refinement alone cannot tell these apart.
TEST(LabelledGraph, GraphsWhoseNodesAllLookAlike) {
  EXPECT_TRUE(isomorphic(rings({8, 4, 4}), reorder(rings({4, 8, 4}), {5, 3, 1, 0, 2, 4, 6, 7, 15,
                                                                      14, 13, 12, 8, 9, 10, 11})));
  EXPECT_FALSE(isomorphic(rings({4, 4}), rings({8})));
  EXPECT_FALSE(isomorphic(rings({4, 12}), rings({8, 8})));
}

TEST(LabelledGraph, LargeSymmetricGraphsTakeLittleTime) {
  LabelledGraph alike, other;
  for (size_t i = 0; i < 100; ++i) alike.nodes.push_back({"a", {}});
  EXPECT_TRUE(isomorphic(alike, alike));
  const std::vector<size_t> many(24, 4);
  EXPECT_TRUE(isomorphic(rings(many), rings(many)));
  alike = rings({4, 4}), other = rings({8});
  for (size_t i = 0; i < 90; ++i) {  // what differs is among many that do not
    alike.nodes.push_back({"a", {}});
    other.nodes.push_back({"a", {}});
  }
  EXPECT_FALSE(isomorphic(alike, other));
}

// Each of many rings can be any of many others, and none of that makes up for the one that differs.
TEST(LabelledGraph, GivesUpOnGraphsMadeToBeHard) {
  std::vector<size_t> fours(24, 4), other(22, 4);
  other.push_back(8);
  EXPECT_THROW(isomorphic(rings(fours), rings(other)), Error);
}

}  // namespace
}  // namespace thinwire::eval
