// Slows real traffic down to the speed of a link: computes when the bytes that a member hands over
// have been sent, and when bytes that were received count as arrived. Deterministic: it reads no
// clock.
#pragma once

#include <cstddef>

#include "thinwire/links/links.h"

namespace thinwire::transport {

// Times are seconds on any clock that never goes back. A rate of 0 means no limit.
class Pacer {
 public:
  explicit Pacer(const links::Link& link) : link_(link) {}

  // How many bytes are sent as one piece: a few milliseconds' worth of the link.
  size_t piece_bytes() const;
  // When bytes handed over at `now` have left, after all earlier ones.
  double leave(double now, size_t bytes);
  // When bytes that reached this member at `now` have arrived, after all earlier ones.
  double arrive(double now, size_t bytes);

 private:
  links::Link link_;
  double up_free_ = 0;
  double down_free_ = 0;
};

}  // namespace thinwire::transport
