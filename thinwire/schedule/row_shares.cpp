#include <algorithm>
#include <numeric>

#include "thinwire/schedule/schedule.h"

namespace thinwire::schedule {
namespace {

// Speeds of the present members; empty if none is known.
std::vector<double> filled_speeds(std::span<const uint8_t> present, std::span<const float> speeds) {
  double sum = 0;
  int known = 0;
  for (size_t m = 0; m < speeds.size(); ++m) {
    if (present[m] == 0 || speeds[m] == 0) continue;
    sum += speeds[m];
    ++known;
  }
  if (known == 0) return {};
  std::vector<double> filled(speeds.begin(), speeds.end());
  for (double& speed : filled) speed = speed == 0 ? sum / known : speed;
  return filled;
}

std::vector<uint64_t> even_shares(uint64_t batch, std::span<const uint8_t> present) {
  const auto members = static_cast<uint64_t>(std::ranges::count(present, uint8_t{1}));
  std::vector<uint64_t> rows(present.size());
  uint64_t index = 0;
  for (size_t m = 0; m < present.size(); ++m) {
    if (present[m] == 0) continue;
    const uint64_t begin = even_share_begin(batch, index, members);
    rows[m] = even_share_begin(batch, ++index, members) - begin;
  }
  return rows;
}

}  // namespace

std::vector<uint64_t> share_rows(uint64_t batch, std::span<const uint8_t> present,
                                 std::span<const float> speeds) {
  const std::vector<double> filled = filled_speeds(present, speeds);
  if (filled.empty()) return even_shares(batch, present);
  double sum = 0;
  for (size_t m = 0; m < present.size(); ++m) sum += present[m] != 0 ? filled[m] : 0;
  std::vector<uint64_t> rows(present.size());
  for (size_t m = 0; m < present.size(); ++m) {
    if (present[m] == 0) continue;
    const double ideal = static_cast<double>(batch) * filled[m] / sum;
    rows[m] = std::max<uint64_t>(1, static_cast<uint64_t>(ideal));
  }
  // Member m's seconds with `more` additional rows; among equals the first is found.
  const auto seconds = [&](size_t m, uint64_t more) {
    return static_cast<double>(rows[m] + more) / filled[m];
  };
  const auto total = [&] { return std::accumulate(rows.begin(), rows.end(), uint64_t{0}); };
  for (uint64_t given = total(); given < batch; ++given) {
    size_t best = present.size();
    for (size_t m = 0; m < present.size(); ++m) {
      if (present[m] == 0) continue;
      if (best == present.size() || seconds(m, 1) < seconds(best, 1)) best = m;
    }
    ++rows[best];
  }
  for (uint64_t given = total(); given > batch; --given) {
    size_t worst = present.size();
    for (size_t m = 0; m < present.size(); ++m) {
      if (rows[m] < 2) continue;
      if (worst == present.size() || seconds(m, 0) > seconds(worst, 0)) worst = m;
    }
    --rows[worst];
  }
  return rows;
}

}  // namespace thinwire::schedule
