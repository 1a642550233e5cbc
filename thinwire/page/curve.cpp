#include "thinwire/page/curve.h"

#include <cmath>

namespace thinwire::page {

void Curve::add(int64_t step, double value) {
  if (!std::isfinite(value)) return;
  open_ = {step, open_.value + value};
  if (++open_count_ < stride_) return;
  full_.push_back({step, open_.value / static_cast<double>(open_count_)});
  open_ = {};
  open_count_ = 0;
  if (full_.size() == kMost) halve();
}

void Curve::halve() {
  for (size_t i = 0; i < kMost / 2; ++i) {
    const Point& first = full_[2 * i];
    const Point& second = full_[2 * i + 1];
    full_[i] = {second.step, (first.value + second.value) / 2};
  }
  full_.resize(kMost / 2);
  stride_ *= 2;
}

std::vector<Curve::Point> Curve::points() const {
  std::vector<Point> all = full_;
  if (open_count_ > 0) all.push_back({open_.step, open_.value / static_cast<double>(open_count_)});
  return all;
}

}  // namespace thinwire::page
