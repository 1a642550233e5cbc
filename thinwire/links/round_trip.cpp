#include "thinwire/links/round_trip.h"

#include <algorithm>
#include <numeric>

namespace thinwire::links {

std::vector<double> run_round_trip(
    std::span<Line* const> lines, std::span<const double> ready, std::span<const double> up_bytes,
    const std::function<double(size_t from, size_t to)>& down_bytes) {
  std::vector<double> begin;
  std::vector<double> sent;
  for (size_t i = 0; i < lines.size(); ++i) {
    begin.push_back(std::max(ready[i], lines[i]->up_free));
    sent.push_back(begin.back() + up_seconds(lines[i]->link, up_bytes[i]));
    lines[i]->up_free = sent.back();
  }
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return begin[i]; });
  std::vector<double> end(ready.begin(), ready.end());
  for (size_t to = 0; to < lines.size(); ++to) {
    Line& receiver = *lines[to];
    double taken = receiver.down_free;
    for (const size_t from : order) {
      const double bytes = down_bytes(from, to);
      if (bytes == 0) continue;
      taken = std::max(taken, begin[from]) + down_seconds(receiver.link, bytes);
      receiver.down_free = std::max({receiver.down_free, taken, sent[from]});
      const double delay = (lines[from]->link.delay_s + receiver.link.delay_s) / 2;
      end[to] = std::max(end[to], receiver.down_free + delay);
    }
  }
  return end;
}

}  // namespace thinwire::links
