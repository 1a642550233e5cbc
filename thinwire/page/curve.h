// A curve of bounded size, however many points it is given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thinwire::page {

// Not thread-safe. Points are kept as means of `stride` neighbours; once kMost are full, pairs of
// them become one and the stride doubles. So between kMost / 2 and kMost points show the whole run.
class Curve {
 public:
  static constexpr size_t kMost = 600;

  // Steps ascend; a value that is not finite is left out.
  void add(int64_t step, double value);

  struct Point {
    int64_t step = 0;  // the last one of those it stands for
    double value = 0;  // their mean
  };
  // The newest one may stand for fewer than `stride` points.
  std::vector<Point> points() const;

 private:
  void halve();

  std::vector<Point> full_;
  int64_t stride_ = 1;
  Point open_;              // value: a sum
  int64_t open_count_ = 0;  // of points in open_
};

}  // namespace thinwire::page
