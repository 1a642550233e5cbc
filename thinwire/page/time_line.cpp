#include <algorithm>
#include <cmath>

#include "thinwire/page/live_run.h"

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

void TimeLines::spend(size_t member, ActivityKind activity, double from, double to) {
  const double begin = std::max(from, start_);
  if (static_cast<size_t>(activity) >= kTimedActivities || !(to > begin)) return;
  reach(to);
  if (member >= lines_.size()) lines_.resize(member + 1);
  put(lines_[member], activity, begin - start_, to - start_);
}

// Widens the buckets until the time is within the last one.
void TimeLines::reach(double time) {
  while (time - start_ > bucket_s_ * static_cast<double>(kMost)) {
    bucket_s_ *= 2;
    for (std::vector<Bucket>& line : lines_) {
      const size_t before = line.size();
      for (size_t i = 0; 2 * i < before; ++i) {
        Bucket sum = line[2 * i];
        for (size_t activity = 0; activity < kTimedActivities && 2 * i + 1 < before; ++activity) {
          sum[activity] += line[2 * i + 1][activity];
        }
        line[i] = sum;
      }
      line.resize((before + 1) / 2);
    }
  }
}

// `from` and `to` count from the start.
void TimeLines::put(std::vector<Bucket>& line, ActivityKind activity, double from,
                    double to) const {
  const auto first = std::min(static_cast<size_t>(from / bucket_s_), kMost - 1);
  // A bucket that it only touches is not part of it.
  const auto end_bucket = static_cast<size_t>(std::ceil(to / bucket_s_));
  const size_t last = std::clamp(end_bucket, first + 1, kMost) - 1;
  if (line.size() <= last) line.resize(last + 1);
  for (size_t i = first; i <= last; ++i) {
    const double begin = std::max(from, static_cast<double>(i) * bucket_s_);
    const double end = std::min(to, static_cast<double>(i + 1) * bucket_s_);
    line[i][static_cast<size_t>(activity)] += static_cast<float>(std::max(end - begin, 0.0));
  }
}

std::span<const TimeLines::Bucket> TimeLines::of(size_t member) const {
  if (member >= lines_.size()) return {};
  return lines_[member];
}

}  // namespace thinwire::page
