#include "thinwire/sync/diloco_fragments.h"

#include <algorithm>

namespace thinwire::sync {
namespace {

// Elements [begin, end) of a tensor, in whole lines.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
};

// The part of each tensor that is in a fragment.
class Partition {
 public:
  Partition(const tensor::Layout& layout, const method::FragmentRule& rule)
      : layout_(layout), slices_(rule.slices) {
    if (slices_ == 0) {
      of_ = method::fragments_of(layout.specs(), rule.layers);
    } else {
      method::fragment_elements(layout.specs(), rule, 0);  // throws
    }
  }

  int64_t fragments() const {
    return slices_ > 0 ? slices_ : *std::max_element(of_.begin(), of_.end()) + 1;
  }
  Part of(size_t tensor, int64_t fragment) const {
    const int64_t end = tensor + 1 < layout_.size() ? layout_.offset(tensor + 1) : layout_.total();
    const int64_t padded = end - layout_.offset(tensor);
    if (slices_ == 0) return {0, of_[tensor] == fragment ? padded : 0};
    return {method::slice_begin(padded, fragment, slices_),
            method::slice_begin(padded, fragment + 1, slices_)};
  }

 private:
  const tensor::Layout& layout_;
  const int64_t slices_;
  std::vector<int64_t> of_;  // the fragment of each tensor; empty with slices
};

}  // namespace

std::vector<DilocoFragment> diloco_fragments(const tensor::Layout& layout,
                                             const method::FragmentRule& rule) {
  const Partition partition(layout, rule);
  std::vector<DilocoFragment> fragments(static_cast<size_t>(partition.fragments()));
  int64_t place = 0;
  for (size_t f = 0; f < fragments.size(); ++f) {
    DilocoFragment& fragment = fragments[f];
    fragment.begin = place;
    for (size_t t = 0; t < layout.size(); ++t) {
      const Part part = partition.of(t, static_cast<int64_t>(f));
      if (part.begin == part.end) continue;
      const int64_t start = layout.offset(t) + part.begin;
      const int64_t end = layout.offset(t) + part.end;
      const int64_t count = std::min(end, layout.offset(t) + layout.specs()[t].count()) - start;
      FragmentPiece* last = fragment.pieces.empty() ? nullptr : &fragment.pieces.back();
      if (last != nullptr && last->gap == 0 && last->arena + last->count == start) {
        last->count += count;
        last->gap = end - start - count;
      } else {
        fragment.pieces.push_back({start, place, count, end - start - count});
      }
      place += end - start;
    }
    fragment.count = place - fragment.begin;
  }
  return fragments;
}

}  // namespace thinwire::sync
