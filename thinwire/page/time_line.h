// How members spent their time, in bounded memory, however long the run takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace thinwire::page {

// What a member does. kTraining: its part of a step is not divided further (the current state of a
// worker of `thinwire train`); never on the time line.
enum class ActivityKind : uint8_t {
  kComputing,
  kSending,
  kWaiting,
  kCatchingUp,
  kLost,
  kLeft,
  kTraining,
};
inline constexpr std::array<std::string_view, 7> kActivityNames = {
    "computing", "sending", "waiting", "catching up", "lost", "left", "training"};
constexpr std::span<const std::string_view> names_of(ActivityKind) { return kActivityNames; }
inline constexpr size_t kTimedActivities = 5;  // those before kLeft are on the time line

// Not thread-safe. Times are seconds of one clock. Time is divided into buckets of equal width;
// each holds the seconds that a member spent doing what. Once kMost are full, the width doubles.
class TimeLines {
 public:
  static constexpr size_t kMost = 240;
  using Bucket = std::array<float, kTimedActivities>;  // seconds, by Doing

  explicit TimeLines(double start) : start_(start) {}

  // Time before the start is ignored, and so are kLeft and kTraining.
  void spend(size_t member, ActivityKind activity, double from, double to);

  double start() const { return start_; }
  double bucket_s() const { return bucket_s_; }
  // Empty for a member without any time recorded. Empty buckets at the end may be missing.
  std::span<const Bucket> of(size_t member) const;

 private:
  void reach(double time);
  void put(std::vector<Bucket>& line, ActivityKind activity, double from, double to) const;

  double start_;
  double bucket_s_ = 0.5;
  std::vector<std::vector<Bucket>> lines_;  // by member
};

}  // namespace thinwire::page
