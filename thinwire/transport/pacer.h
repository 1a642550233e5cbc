// Real bytes no faster than a link: when what a member hands over may have left, and when what has
// come may count as arrived. A pure function of the times it is told.
#pragma once

#include <cstddef>

#include "thinwire/links/links.h"

namespace thinwire::transport {

// Times are seconds of any clock that never goes back. A rate of 0: not limited.
class Pacer {
 public:
  explicit Pacer(const links::Link& link) : link_(link) {}

  // Bytes that leave together: some milliseconds of the link.
  size_t piece_bytes() const;
  // When the bytes have left that were handed over at `now`, behind all earlier ones.
  double leave(double now, size_t bytes);
  // When the bytes have come in that reached this member at `now`, behind all earlier ones.
  double arrive(double now, size_t bytes);

 private:
  links::Link link_;
  double up_free_ = 0;
  double down_free_ = 0;
};

}  // namespace thinwire::transport
