// The mean, slot by slot, of what members (fewer than 65536) sent for a tile: a sum times the fp32
// reciprocal of a number of members. Every sum is formed in the order in which members are added,
// with one rounding each, so all instruction sets give the same bits.
#pragma once

#include <cstdint>
#include <vector>

namespace thinwire::codec {

// One object per thread: it owns the workspace.
class SlotMeans {
 public:
  static constexpr int kPadding = 16;  // elements that a vector may write after the last one

  // For tiles of at most `slots` slots.
  explicit SlotMeans(int slots);

  // Adds values[i] to the sum at slot slots[i], or at places[slots[i]] if `places` is not null;
  // slots of one call are different from each other.
  void add(const uint16_t* slots, const float* values, uint32_t count,
           const uint16_t* places = nullptr);

  // Writes the slots below `tile_slots` that anyone sent, in ascending order, and their sums
  // divided by `members` or, if that is 0, by the number of members that sent the slot. Returns how
  // many there are; both outputs need space for tile_slots + kPadding elements. All sums are zero
  // afterwards.
  uint32_t take(int tile_slots, uint32_t members, uint16_t* slots, float* means);
  // The same for every place below `places`, with zeros where nobody sent anything.
  void take_all(int places, uint32_t members, float* means);

 private:
  std::vector<float> sums_;        // by slot or place
  std::vector<uint16_t> senders_;  // likewise
  std::vector<float> found_sums_;  // of the slots that were sent
  std::vector<uint32_t> found_senders_;
  std::vector<uint32_t> found_slots_;
};

}  // namespace thinwire::codec
