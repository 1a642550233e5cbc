// Maps texts to tokens and finds those that a longer text begins with. Thread-safe once filled.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace thinwire::data {

class PrefixTree {
 public:
  // `text` must not be empty. A text that was added before keeps its token.
  void add(std::string_view text, int32_t token) {
    int32_t node = 0;
    for (const char byte : text) {
      const int32_t next = child(node, byte);
      if (next > 0) {
        node = next;
        continue;
      }
      nodes_[static_cast<size_t>(node)].children.emplace_back(byte,
                                                              static_cast<int32_t>(nodes_.size()));
      node = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
    }
    if (nodes_[static_cast<size_t>(node)].token < 0)
      nodes_[static_cast<size_t>(node)].token = token;
  }

  // Calls visit(bytes, token) for each added text that `text` begins with, shortest first. bytes:
  // the length of the added text.
  template <typename Visit>
  void prefixes(std::string_view text, const Visit& visit) const {
    int32_t node = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      node = child(node, text[at]);
      if (node == 0) return;
      const int32_t token = nodes_[static_cast<size_t>(node)].token;
      if (token >= 0) visit(at + 1, token);
    }
  }

 private:
  struct Node {
    std::vector<std::pair<char, int32_t>> children;
    int32_t token = -1;
  };

  // The child node for `byte`; 0: none.
  int32_t child(int32_t node, char byte) const {
    for (const auto& [label, next] : nodes_[static_cast<size_t>(node)].children) {
      if (label == byte) return next;
    }
    return 0;
  }

  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace thinwire::data
