// Takes the k largest coefficients out of a tile, exactly: ties go to the lowest slot, zeros are
// never taken. The order of operations affects only speed, so every instruction set gives the same
// result; any input, constant tiles included, takes O(n) time.
#pragma once

#include <cstdint>
#include <memory>

namespace thinwire::codec {

// For tiles of rows x columns coefficients, of which `kept` are taken. A tile is stored column by
// column: position b * rows + a holds slot a * columns + b. One object per thread: it owns the
// workspace.
class TopK {
 public:
  TopK(int rows, int columns, int kept);
  ~TopK();
  TopK(TopK&&) noexcept;

  // Writes the taken slots, ascending, and their values, sets them to zero in the tile, and returns
  // how many there are: `kept`, or the number of nonzero values if that is less.
  //
  // `guess` saves time if it holds what the last call for a similar tile left there (0: none); it
  // never changes what is taken.
  int take(float* tile, uint16_t* slots, float* values, uint32_t& guess);

  int64_t position(uint16_t slot) const;

  struct Workspace;

 private:
  std::unique_ptr<Workspace> workspace_;
};

}  // namespace thinwire::codec
