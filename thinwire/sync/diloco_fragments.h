// Where the fragments of a model are: which parts of the arena make up a fragment's buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "thinwire/method/diloco.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::sync {

// `count` values at offset `arena` of an arena, and at offset `buffer` of a buffer of the whole
// model that holds the fragments one after another; `gap` zeros follow in both.
struct FragmentPiece {
  int64_t arena = 0;
  int64_t buffer = 0;
  int64_t count = 0;
  int64_t gap = 0;
};

// The values [begin, begin + count) of such a buffer, gaps included.
struct DilocoFragment {
  int64_t begin = 0;
  int64_t count = 0;
  std::vector<FragmentPiece> pieces;  // ascending in both offsets
};

// Throws UsageError as method::fragment_elements does.
std::vector<DilocoFragment> diloco_fragments(const tensor::Layout& layout,
                                             const method::FragmentRule& rule);

}  // namespace thinwire::sync
