// Who forms a sum, by measured bandwidth (sync.sums = "auto"): the coordinator, unless its line is
// so slow that members have the other contributions before they would have its sum. docs/hosts.md,
// "Sums".
#pragma once

#include <cstdint>

namespace thinwire::serve {

class SumChoice {
 public:
  // What it took the coordinator to fetch so many contributions of `bytes` each, to add them up and
  // to store the sum.
  void formed(uint64_t contributions, uint64_t bytes, double seconds);
  // Whether it forms the next one. `down_bytes_s`: of the slowest member's link; 0: not known. It
  // tries again after some that it has left to the members, since lines change.
  bool coordinator_forms(uint64_t contributions, uint64_t bytes, double down_bytes_s);

 private:
  double seconds_a_byte_ = 0;  // of contributions and sum, the last time; 0: not known
  int left_to_members_ = 0;    // since then
};

}  // namespace thinwire::serve
