#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

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
  // Whose turn it is to get a row or to lose one: the first of those with the least seconds, which
  // count as negative where the most is meant.
  using Turn = std::pair<double, size_t>;
  using Turns = std::priority_queue<Turn, std::vector<Turn>, std::greater<>>;
  const auto seconds = [&](size_t m, uint64_t more) {
    return static_cast<double>(rows[m] + more) / filled[m];
  };
  uint64_t given = std::accumulate(rows.begin(), rows.end(), uint64_t{0});
  Turns getting, losing;
  for (size_t m = 0; m < present.size(); ++m) {
    if (present[m] == 0) continue;
    if (given < batch) getting.emplace(seconds(m, 1), m);
    if (given > batch && rows[m] > 1) losing.emplace(-seconds(m, 0), m);
  }
  for (; given < batch; ++given) {
    const size_t m = getting.top().second;
    getting.pop();
    ++rows[m];
    getting.emplace(seconds(m, 1), m);
  }
  for (; given > batch; --given) {
    const size_t m = losing.top().second;
    losing.pop();
    if (--rows[m] > 1) losing.emplace(-seconds(m, 0), m);
  }
  return rows;
}

}  // namespace thinwire::schedule
