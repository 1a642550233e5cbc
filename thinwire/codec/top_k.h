// Takes the k largest coefficients out of a tile, exactly: ties go to the lowest slot, zeros are
// never taken. The order of operations affects speed only, so any instruction set gives the same
// result; any input, constant tiles included, takes O(n).
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
  uint32_t column(uint32_t position) const {
    return static_cast<uint32_t>(position * reciprocal_ >> 24);
  }
  uint32_t row(uint32_t position) const {
    return position - column(position) * static_cast<uint32_t>(rows_);
  }
  // Bits of a positive number that at least `kept` absolute values reach, or of the smallest one.
  uint32_t lower_bound(const float* tile);
  void order_by_row(int64_t count);

  int rows_;
  int columns_;
  int kept_;
  int groups_;                        // the elements at positions equal modulo this form a group
  uint64_t reciprocal_;               // 2^24 / rows, rounded up
  std::vector<uint32_t> maxima_;      // a group
  std::vector<uint32_t> candidates_;  // positions
  std::vector<uint32_t> bits_;        // of the candidates' absolute values
  std::vector<uint32_t> ordered_;
  std::vector<uint32_t> starts_;  // a row
};

}  // namespace thinwire::codec
