// A uniform sample of bounded size from a stream of text; the vocabulary is trained on it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thinwire::data {

// Documents are cut into segments of a few kilobytes, at line breaks or spaces where there are any.
// The segments with the smallest hashes of their numbers are kept, as many as fit into the budget:
// every part of the text has the same chance, and the same text gives the same sample.
class TextSample {
 public:
  explicit TextSample(uint64_t budget_bytes) : budget_(budget_bytes) {}

  // The text must be valid UTF-8.
  void add(std::string_view document);
  // The sample in the order of the text; empties this.
  std::vector<std::string> take();

 private:
  struct Segment {
    uint64_t priority;
    uint64_t number;
    std::string text;
  };

  void add_segment(std::string_view text);

  uint64_t budget_;
  uint64_t bytes_ = 0;
  uint64_t count_ = 0;
  std::vector<Segment> kept_;  // a heap, the largest priority on top
};

}  // namespace thinwire::data
