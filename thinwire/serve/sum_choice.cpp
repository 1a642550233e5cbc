#include "thinwire/serve/sum_choice.h"

namespace thinwire::serve {
namespace {

constexpr double kNoticed = 1;  // s: sums that take no longer are not worth a choice
constexpr int kLeftToMembers = 15;

double moved(uint64_t contributions, uint64_t bytes) {
  return static_cast<double>(contributions + 1) * static_cast<double>(bytes);
}

}  // namespace

void SumChoice::formed(uint64_t contributions, uint64_t bytes, double seconds) {
  seconds_a_byte_ = seconds / moved(contributions, bytes);
  left_to_members_ = 0;
}

// How much members can fetch from the server at the same time is not known, but it is at least what
// one of them can.
bool SumChoice::coordinator_forms(uint64_t contributions, uint64_t bytes, double down_bytes_s) {
  if (down_bytes_s <= 0 || left_to_members_ == kLeftToMembers) return true;
  const double seconds = seconds_a_byte_ * moved(contributions, bytes);
  const auto more = static_cast<double>(contributions * (contributions - 2) * bytes);
  if (seconds <= kNoticed || seconds <= more / down_bytes_s) return true;
  ++left_to_members_;
  return false;
}

}  // namespace thinwire::serve
