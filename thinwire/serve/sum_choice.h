// Who forms a sum, by measured bandwidth (sync.sums = "auto"): the coordinator, unless its line is
// so slow that members have the other contributions before they would have its sum. docs/hosts.md,
// "Sums".
#pragma once

#include <cstdint>

namespace thinwire::serve {

class SumChoice {
 public:
  struct Exchange {
    uint64_t contributions = 0;  // 3 or more
    uint64_t bytes = 0;          // of each, and of the sum
    double down_bytes_s = 0;     // of the slowest member's link; 0: not known
  };

  // What it took the coordinator to fetch so many contributions of `bytes` each, to add them up and
  // to store the sum; or as long as it had tried.
  void formed(uint64_t contributions, uint64_t bytes, double seconds);
  // As far as is known.
  bool members_are_faster(const Exchange& exchange) const;
  // Whether it forms the next one. It tries again after some that it has left to the members, since
  // lines change.
  bool coordinator_forms(const Exchange& exchange);

 private:
  double seconds_a_byte_ = 0;  // of contributions and sum, the last time; 0: not known
  int left_to_members_ = 0;    // since then
};

}  // namespace thinwire::serve
