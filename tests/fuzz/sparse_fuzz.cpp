// libFuzzer target of codec::decode_sparse (preset fuzz). The first byte chooses the value format;
// the checksum of a payload is left out, since it would keep the fuzzer from getting anywhere.
#include <cmath>
#include <vector>

#include "target.h"
#include "thinwire/codec/sparse.h"

namespace {

using thinwire::codec::SparseShape;
using thinwire::codec::SparseTiles;

void check(const std::vector<SparseShape>& shapes, const SparseTiles& tiles) {
  for (const SparseShape& shape : shapes) {
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      const auto first = static_cast<size_t>(shape.first_kept + tile * shape.kept);
      const size_t count = tiles.counts[static_cast<size_t>(shape.first_tile + tile)];
      require(count <= static_cast<size_t>(shape.kept));
      for (size_t i = first; i < first + count; ++i) {
        require(tiles.slots[i] < shape.slots);
        require(i == first || tiles.slots[i - 1] < tiles.slots[i]);
        require(std::isfinite(tiles.values[i]));
      }
    }
  }
}

}  // namespace

FUZZ_TARGET(sparse)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto format = static_cast<thinwire::ValueFormat>(data[0] % 5);
  const std::vector<SparseShape> shapes = {
      {4, 64, 3, 0, 0}, {2, 5, 1, 4, 12}, {1, 65536, 9, 6, 14}, {3, 8, 8, 7, 23}};
  SparseTiles tiles(shapes);
  if (thinwire::codec::decode_sparse(shapes, format, {data + 1, size - 1}, tiles)) {
    check(shapes, tiles);
    // A decoded message can be encoded again and arrives unchanged.
    thinwire::Bytes again;
    thinwire::codec::encode_sparse(shapes, format, tiles, again);
    SparseTiles copy(shapes);
    require(thinwire::codec::decode_sparse(shapes, format, again, copy).has_value());
    require(copy.counts == tiles.counts && copy.scales == tiles.scales);
  }
  return 0;
}
