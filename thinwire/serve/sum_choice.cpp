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
bool SumChoice::members_are_faster(const Exchange& exchange) const {
  const auto& [contributions, bytes, down_bytes_s] = exchange;
  if (down_bytes_s <= 0) return false;
  const double seconds = seconds_a_byte_ * moved(contributions, bytes);
  const auto more = static_cast<double>(contributions * (contributions - 2) * bytes);
  return seconds > kNoticed && seconds > more / down_bytes_s;
}

bool SumChoice::coordinator_forms(const Exchange& exchange) {
  if (!members_are_faster(exchange)) return true;
  if (left_to_members_ == kLeftToMembers) {
    left_to_members_ = 0;
    return true;
  }
  ++left_to_members_;
  return false;
}

}  // namespace thinwire::serve
