// Which documents of a text are held out for validation: the middle one of every 1 / fraction
// blocks of documents. Blocks keep neighbouring documents, which resemble each other, on one side.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "thinwire/config/sections.h"

namespace thinwire::data {

struct TextSize {
  uint64_t documents = 0;
  uint64_t bytes = 0;  // UTF-8 bytes of the documents
};

class Split {
 public:
  // fraction in [0, 0.5] of the blocks, each of `block` >= 1 documents.
  Split(double fraction, uint64_t block) : fraction_(fraction), block_(block) {}

  bool for_validation(uint64_t document) const {
    const uint64_t block = document / block_;
    return blocks_before(block + 1) > blocks_before(block);
  }
  bool operator==(const Split&) const = default;

 private:
  uint64_t blocks_before(uint64_t blocks) const;  // number held out among the first `blocks`

  double fraction_;
  uint64_t block_;
};

// Whether the split depends on more of the text than these first documents.
bool split_needs_more(const config::DataSection& data, const TextSize& first);

// The split that data.validation_fraction and data.validation_block give for a text of this size,
// or for one with these first documents once split_needs_more() is false. With validation_block 0,
// the blocks have 64 documents if the fraction holds out at least one such block. Otherwise blocks
// are smaller (the largest power of two that the held-out documents fill), and at least one
// document is held out, and at least 4 kB of text unless that is more than a tenth of it.
Split split_of(const config::DataSection& data, const TextSize& size);

// A uniform sample of bounded size from a stream of text; the vocabulary is trained on it.

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
