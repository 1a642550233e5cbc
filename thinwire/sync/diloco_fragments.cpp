#include "thinwire/sync/diloco_fragments.h"

#include <algorithm>

#include "thinwire/method/diloco.h"

namespace thinwire::sync {

std::vector<DilocoFragment> diloco_fragments(const tensor::Layout& layout,
                                             int64_t fragment_layers) {
  const std::vector<int64_t> of = method::fragments_of(layout.specs(), fragment_layers);
  std::vector<DilocoFragment> fragments(
      static_cast<size_t>(*std::max_element(of.begin(), of.end()) + 1));
  int64_t place = 0;
  for (size_t f = 0; f < fragments.size(); ++f) {
    DilocoFragment& fragment = fragments[f];
    fragment.begin = place;
    for (size_t t = 0; t < layout.size(); ++t) {
      if (of[t] != static_cast<int64_t>(f)) continue;
      const int64_t start = layout.offset(t);
      const int64_t end = t + 1 < layout.size() ? layout.offset(t + 1) : layout.total();
      const int64_t count = layout.specs()[t].count();
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
