#include "thinwire/links/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "thinwire/base/error.h"
#include "thinwire/config/values.h"

namespace thinwire::links {
namespace {

constexpr double kBitsPerByte = 8;

double line_seconds(double bytes, double bit_s, double loss) {
  return bytes == 0 ? 0 : bytes * kBitsPerByte / (bit_s * (1 - loss));
}

Member member_of(const config::LinksSection& section) {
  return {{section.up_bit_s, section.down_bit_s, section.delay_s, section.loss}, section.step_s};
}

}  // namespace

double up_seconds(const Link& link, double bytes) {
  return line_seconds(bytes, link.up_bit_s, link.loss);
}

double down_seconds(const Link& link, double bytes) {
  return line_seconds(bytes, link.down_bit_s, link.loss);
}

double transfer_seconds(const Link& link, double bytes_sent, double bytes_received,
                        double round_trips) {
  return std::max(up_seconds(link, bytes_sent), down_seconds(link, bytes_received)) +
         round_trips * link.delay_s;
}

double stored_seconds(const Link& link, double bytes_sent, double bytes_received,
                      double round_trips) {
  return up_seconds(link, bytes_sent) + down_seconds(link, bytes_received) +
         round_trips * (kStoringDelays + kFetchingDelays) * link.delay_s;
}

std::vector<Member> members_of(const config::LinksSection& section, int members) {
  std::vector<config::LinksSection> sections(static_cast<size_t>(members), section);
  for (const std::string& entry : section.members) {
    const size_t dot = entry.find('.');
    const size_t equals = entry.find('=');
    size_t member = 0;
    const auto number =
        std::from_chars(entry.data(), entry.data() + std::min(dot, entry.size()), member);
    if (dot == std::string::npos || equals == std::string::npos || equals < dot ||
        number.ec != std::errc() || number.ptr != entry.data() + dot) {
      throw UsageError(
          fmt::format("[links] members must be like \"0.up_bit_s=5M\", got \"{}\"", entry));
    }
    if (member >= sections.size()) {
      throw UsageError(fmt::format("[links] members: \"{}\" names member {}, but there are {}",
                                   entry, member, members));
    }
    config::Fields fields;
    sections[member].describe(fields);
    const std::string name = entry.substr(dot + 1, equals - dot - 1);
    const auto field = std::ranges::find_if(fields.all(), [&](const config::Field& one) {
      return one.name == name && std::holds_alternative<double*>(one.target);
    });
    if (field == fields.all().end()) {
      throw UsageError(fmt::format(
          "[links] members: \"{}\" must set up_bit_s, down_bit_s, delay_s, loss or step_s", entry));
    }
    config::assign(*field, "links.members", config::Value(entry.substr(equals + 1)));
  }
  std::vector<Member> all;
  all.reserve(sections.size());
  for (const config::LinksSection& one : sections) all.push_back(member_of(one));
  return all;
}

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
