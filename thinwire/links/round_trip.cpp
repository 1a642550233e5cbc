#include "thinwire/links/round_trip.h"

#include <algorithm>
#include <numeric>

namespace thinwire::links {

Span Channel::take(double ready, double seconds) {
  if (seconds <= 0) return {ready, ready};
  // From `ready` to the new end everything will be taken: one span replaces those in between.
  const auto first = std::ranges::lower_bound(taken_, ready, {}, &Span::end);
  Span whole{ready, ready};
  if (first != taken_.end() && first->begin <= ready) whole = *first;
  const double begin = whole.end;
  auto next = first;
  for (double left = seconds; left > 0;) {
    if (next != taken_.end() && next->begin <= whole.end) {
      whole.end = std::max(whole.end, (next++)->end);
      continue;
    }
    const double free = next == taken_.end() ? left : next->begin - whole.end;
    whole.end = left < free ? whole.end + left : whole.end + free;
    left -= std::min(left, free);
  }
  const double end = whole.end;
  if (next != taken_.end() && next->begin <= end) whole.end = (next++)->end;
  if (first == next) {
    taken_.insert(first, whole);
  } else {
    *first = whole;
    taken_.erase(first + 1, next);
  }
  return {begin, end};
}

void Channel::forget_before(double time) {
  const auto past = std::ranges::lower_bound(taken_, time, {}, &Span::end);
  taken_.erase(taken_.begin(), past);
}

std::vector<double> run_round_trip(
    std::span<Line* const> lines, std::span<const double> ready, std::span<const double> up_bytes,
    const std::function<double(size_t from, size_t to)>& down_bytes) {
  std::vector<Span> sent;
  for (size_t i = 0; i < lines.size(); ++i) {
    sent.push_back(lines[i]->up.take(ready[i], up_seconds(lines[i]->link, up_bytes[i])));
  }
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return sent[i].begin; });
  std::vector<double> end(ready.begin(), ready.end());
  for (size_t to = 0; to < lines.size(); ++to) {
    Line& receiver = *lines[to];
    for (const size_t from : order) {
      const double bytes = down_bytes(from, to);
      if (bytes == 0) continue;
      const double seconds = down_seconds(receiver.link, bytes);
      const double received = receiver.down.take(sent[from].begin, seconds).end;
      const double delay = (lines[from]->link.delay_s + receiver.link.delay_s) / 2;
      end[to] = std::max(end[to], std::max(received, sent[from].end) + delay);
    }
  }
  return end;
}

}  // namespace thinwire::links
