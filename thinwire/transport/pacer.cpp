#include "thinwire/transport/pacer.h"

#include <algorithm>

namespace thinwire::transport {
namespace {

constexpr double kPieceSeconds = 0.005;
constexpr double kLeast = 1 << 10;
constexpr double kMost = 1 << 30;  // what MPI takes at once is an int

}  // namespace

size_t Pacer::piece_bytes() const {
  if (link_.up_bit_s == 0) return static_cast<size_t>(kMost);
  return static_cast<size_t>(std::clamp(link_.up_bit_s / 8 * kPieceSeconds, kLeast, kMost));
}

double Pacer::leave(double now, size_t bytes) {
  if (link_.up_bit_s == 0) return now;
  up_free_ = std::max(up_free_, now) + links::up_seconds(link_, static_cast<double>(bytes));
  return up_free_;
}

double Pacer::arrive(double now, size_t bytes) {
  if (link_.down_bit_s == 0) return now;
  down_free_ = std::max(down_free_, now) + links::down_seconds(link_, static_cast<double>(bytes));
  return down_free_;
}

}  // namespace thinwire::transport
