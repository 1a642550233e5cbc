// Takes the k largest coefficients out of a tile, exactly: ties go to the lowest slot, zeros are
// never taken. The order of operations affects speed only, so any instruction set gives the same
// result, and so does any input, constant tiles included, in O(n log k).
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire::codec {

// For tiles of rows x columns coefficients of which `kept` are taken. A tile lies column by column:
// position b * rows + a holds slot a * columns + b. One object a thread: it owns the workspace.
class TopK {
 public:
  TopK(int rows, int columns, int kept);

  // Writes the taken slots, ascending, and their values, sets them to zero in the tile, and returns
  // how many there are: `kept`, or the number of values that are not zero when that is less.
  int take(float* tile, uint16_t* slots, float* values);

  int64_t position(uint16_t slot) const {
    return int64_t{slot} % columns_ * rows_ + slot / columns_;
  }

 private:
  // Bits of a positive number that at least `kept` absolute values reach, or of the smallest one.
  uint32_t lower_bound(const float* tile);
  void mark(uint32_t slot);
  int take_marked(float* tile, uint16_t* slots, float* values);

  int rows_;
  int columns_;
  int kept_;
  int groups_;                        // the elements at positions equal modulo this form a group
  int words_;                         // of 64 bits, a row of marks
  std::vector<uint32_t> maxima_;      // a group
  std::vector<uint32_t> candidates_;  // positions
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> marks_;  // a bit a slot, row by row
};

}  // namespace thinwire::codec
