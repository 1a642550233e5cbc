#include "thinwire/plan/run_time.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <string>

#include "thinwire/links/links.h"
#include "thinwire/schedule/schedule.h"

namespace thinwire::plan {
namespace {

// Rounds of a longer run that are simulated, and how many of them it takes until rounds repeat.
constexpr int64_t kSimulatedRounds = 40;
constexpr int64_t kSettlingRounds = 24;

// Members that behave alike.
struct Place {
  double compute;
  double count;
  size_t line;
  int cluster;
  bool leads;
  double clock = 0;
};

// The line of a site, or those of members that act alike.
struct Wire {
  links::Line line;
  bool shared = false;
};

using Places = std::vector<size_t>;

// An operation in flight, and when each of its places has received everything.
struct InFlight {
  size_t piece;
  int64_t due;  // the step after which it is waited for
  std::vector<double> arrival;
};

class RunSimulator {
 public:
  // `ends`: whether the run ends after so many steps, and everything is sent once more.
  RunSimulator(const RunSchedule& schedule, int64_t steps, bool ends,
               std::span<const Member> members, std::span<const double> compute)
      : schedule_(schedule),
        steps_(steps),
        sends_{ends ? steps : steps + schedule.every, schedule.every,
               static_cast<int64_t>(schedule.pieces.size())},
        inside_(clustered() ? static_cast<size_t>(schedule.clusters.count) : 0),
        inside_in_flight_(inside_.size()) {
    set_up_places(members, compute);
    for (size_t cluster = 0; cluster < inside_.size(); ++cluster) set_up_inside(cluster);
  }

  // The mean of the members' clocks at the end.
  double play() {
    for (int64_t step = 0; step < steps_;) {
      const int64_t next = next_event(step);
      compute(static_cast<double>(next - step));
      step = next;
      synchronise_inside(step);
      // A piece that may be in flight for a whole round is waited for after the next one has been
      // sent.
      if (schedule_.overlap_steps < schedule_.every) receive_due(step);
      for (size_t piece = 0; piece < schedule_.pieces.size(); ++piece) {
        const bool sent = !schedule_.parts.all.empty();  // during the step
        if (!sent && sends_.sends(static_cast<int64_t>(piece), step)) send(piece, step);
      }
      receive_due(step);
    }
    double sum = 0;
    double members = 0;
    for (const Place& place : places_) {
      sum += place.count * place.clock;
      members += place.count;
    }
    return sum / members;
  }

 private:
  void set_up_places(std::span<const Member> members, std::span<const double> compute) {
    std::map<std::string, size_t> sites;
    int number = 0;
    for (size_t group = 0; group < members.size(); ++group) {
      const Member& member = members[group];
      for (int64_t left = member.count; left > 0;) {
        const int64_t alike = alike_from(number, left);
        const bool known = !member.site.empty() && sites.contains(member.site);
        if (!known) {
          if (!member.site.empty()) sites[member.site] = lines_.size();
          lines_.push_back({{member.link, {}, {}}, !member.site.empty()});
        }
        const size_t line = known ? sites[member.site] : lines_.size() - 1;
        const int cluster = clustered() ? schedule_.clusters.of(number) : 0;
        const bool leads = !clustered() || schedule_.clusters.first(cluster) == number;
        if (leads) leaders_.push_back(places_.size());
        everyone_.push_back(places_.size());
        places_.push_back({compute[group], static_cast<double>(alike), line, cluster, leads});
        left -= alike;
        number += static_cast<int>(alike);
      }
    }
  }

  bool clustered() const { return schedule_.clusters.count < schedule_.clusters.members; }

  // How many of the `left` equal members from `number` on have the same cluster and role in it.
  int64_t alike_from(int number, int64_t left) const {
    if (!clustered()) return left;
    const method::Clusters& clusters = schedule_.clusters;
    const int cluster = clusters.of(number);
    if (clusters.first(cluster) == number) return 1;
    return std::min<int64_t>(left, clusters.first(cluster + 1) - number);
  }

  // Members behind one line wait for each other every step and for nothing else.
  void set_up_inside(size_t cluster) {
    Places& inside = inside_[cluster];
    double slowest = 0;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].cluster != static_cast<int>(cluster)) continue;
      inside.push_back(i);
      slowest = std::max(slowest, places_[i].compute);
    }
    const bool free = std::ranges::all_of(inside, [&](size_t i) {
      return places_[i].line == places_[inside.front()].line && lines_[places_[i].line].shared;
    });
    if (free) {
      for (const size_t i : inside) places_[i].compute = slowest;
    }
    meets_inside_ |= !free && inside.size() > 1 && !schedule_.inside.empty();
  }

  // With an exchange during it, a single one.
  void compute(double steps) {
    if (!schedule_.parts.all.empty()) {
      compute_in_parts(leaders_, schedule_.pieces.front(), schedule_.parts);
    } else if (meets_inside_ && !schedule_.inside_parts.all.empty()) {
      for (size_t cluster = 0; cluster < inside_.size(); ++cluster) {
        compute_in_parts(inside_[cluster], schedule_.inside[cluster], schedule_.inside_parts);
      }
    } else {
      compute(everyone_, steps);
    }
  }

  void compute(const Places& places, double steps) {
    for (const size_t place : places) places_[place].clock += steps * places_[place].compute;
  }

  void compute_in_parts(const Places& places, const method::Piece& piece,
                        const method::ExchangeParts& parts) {
    double done = 0;
    std::deque<std::vector<double>> arrivals;
    const auto wait_for = [&](size_t left) {
      for (; arrivals.size() > left; arrivals.pop_front()) wait(places, arrivals.front());
    };
    for (const method::ExchangePart& part : parts.all) {
      compute(places, part.begins - done);
      done = part.begins;
      method::Piece sum = piece;
      sum.sent_bytes *= part.bytes;
      sum.received_bytes *= part.bytes;
      arrivals.push_back(operate(places, sum));
      if (parts.in_turn) wait_for(1);
    }
    compute(places, 1 - done);
    wait_for(0);
  }

  int64_t next_event(int64_t step) const {
    if (meets_inside_ || !schedule_.parts.all.empty()) return step + 1;
    int64_t next = steps_;
    for (int64_t piece = 0; piece < sends_.fragments; ++piece) {
      next = std::min(next, sends_.sent_after(piece, sends_.sent(piece, step) + 1));
    }
    for (const InFlight& one : in_flight_) next = std::min(next, std::max(one.due, step + 1));
    return next;
  }

  void synchronise_inside(int64_t step) {
    if (!meets_inside_ || !schedule_.inside_parts.all.empty()) return;
    for (size_t cluster = 0; cluster < inside_.size(); ++cluster) {
      std::deque<std::vector<double>>& in_flight = inside_in_flight_[cluster];
      in_flight.push_back(operate(inside_[cluster], schedule_.inside[cluster]));
      const int64_t left = step == sends_.steps ? 0 : schedule_.inside_overlap;
      while (static_cast<int64_t>(in_flight.size()) > left) {
        wait(inside_[cluster], in_flight.front());
        in_flight.pop_front();
      }
    }
  }

  void send(size_t piece, int64_t step) {
    const int64_t due = std::min(step + schedule_.overlap_steps, sends_.steps);
    in_flight_.push_back({piece, due, operate(leaders_, schedule_.pieces[piece])});
  }

  void receive_due(int64_t step) {
    for (; !in_flight_.empty() && in_flight_.front().due <= step; in_flight_.pop_front()) {
      receive(in_flight_.front());
    }
  }

  void receive(const InFlight& one) {
    wait(leaders_, one.arrival);
    const double bytes = schedule_.pieces[one.piece].broadcast_bytes;
    if (!clustered() || bytes == 0) return;
    for (const Places& inside : inside_) {
      const auto from_leader = [&](size_t place) { return places_[place].leads ? bytes : 0; };
      const double copies = schedule_.relay ? 1 : std::max(0.0, member_count(inside) - 1);
      const auto up = [&](size_t place) { return copies * from_leader(place); };
      wait(inside, round_trip(inside, clocks(inside), up, from_leader));
    }
  }

  void wait(const Places& places, const std::vector<double>& until) {
    for (size_t i = 0; i < places.size(); ++i) {
      places_[places[i]].clock = std::max(places_[places[i]].clock, until[i]);
    }
  }

  std::vector<double> clocks(const Places& places) const {
    std::vector<double> clocks;
    for (const size_t place : places) clocks.push_back(places_[place].clock);
    return clocks;
  }

  double member_count(const Places& places) const {
    double count = 0;
    for (const size_t place : places) count += places_[place].count;
    return count;
  }

  // When each place has received what all of `places` sent.
  std::vector<double> operate(const Places& places, const method::Piece& piece) {
    std::vector<double> ready = clocks(places);
    const double others = member_count(places) - 1;
    if (others < 1) return ready;
    if (schedule_.stored) return store(places, ready, piece);
    const auto round_trips = std::max<int64_t>(1, std::llround(piece.round_trips));
    const bool copied = !schedule_.relay && round_trips == 1;
    const double up =
        (copied ? piece.received_bytes : piece.sent_bytes) / static_cast<double>(round_trips);
    const double pair = piece.received_bytes / static_cast<double>(round_trips) / others;
    for (int64_t i = 0; i < round_trips; ++i) {
      ready = round_trip(
          places, ready, [&](size_t) { return up; }, [&](size_t) { return pair; });
    }
    return ready;
  }

  // The same where everything is stored before anybody fetches it.
  std::vector<double> store(const Places& places, const std::vector<double>& ready,
                            const method::Piece& piece) {
    std::map<size_t, double> members;  // behind each line
    std::map<size_t, double> begin;
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places_[places[i]];
      members[place.line] += lines_[place.line].shared ? place.count : 1;
      begin[place.line] = std::max(begin[place.line], ready[i]);
    }
    double closed = 0;  // when the coordinator closes the round
    for (const auto& [number, count] : members) {
      links::Line& line = lines_[number].line;
      const double seconds = links::up_seconds(line.link, count * piece.sent_bytes);
      const double sent = line.up.take(begin[number], seconds).end;
      closed = std::max(closed, sent + links::kStoringDelays * line.link.delay_s);
    }
    std::map<size_t, double> fetched;
    for (const auto& [number, count] : members) {
      links::Line& line = lines_[number].line;
      const double seconds = links::down_seconds(line.link, count * piece.received_bytes);
      fetched[number] =
          line.down.take(closed, seconds).end + links::kFetchingDelays * line.link.delay_s;
    }
    std::vector<double> end;
    for (const size_t place : places) end.push_back(fetched[places_[place].line]);
    return end;
  }

  // `up`: bytes that a member of a place sends; `each`: those of them that every other member
  // takes.
  std::vector<double> round_trip(const Places& places, const std::vector<double>& ready,
                                 const std::function<double(size_t)>& up,
                                 const std::function<double(size_t)>& each) {
    std::map<size_t, size_t> slots;  // of the lines that take part
    for (const size_t place : places) slots.try_emplace(places_[place].line, slots.size());
    std::vector<links::Line*> lines(slots.size());
    std::vector<double> begin(slots.size(), 0);
    std::vector<double> sent(slots.size(), 0);
    std::vector<double> members(slots.size(), 0);
    std::vector<double> passed_on(slots.size(), 0);  // to each receiver elsewhere
    std::vector<double> among(slots.size(), 0);      // to each member at lines of the same place
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places_[places[i]];
      const size_t slot = slots[place.line];
      const bool shared = lines_[place.line].shared;
      lines[slot] = &lines_[place.line].line;
      begin[slot] = std::max(begin[slot], ready[i]);
      sent[slot] += up(places[i]) * (shared ? place.count : 1);
      members[slot] += shared ? place.count : 1;
      passed_on[slot] += each(places[i]) * place.count;
      if (!shared) among[slot] = each(places[i]) * (place.count - 1);
    }
    if (lines.size() == 1 && among[0] == 0) sent[0] = 0;  // nobody is elsewhere
    const auto end = links::run_round_trip(lines, begin, sent, [&](size_t from, size_t to) {
      return from == to ? among[to] : passed_on[from] * members[to];
    });
    std::vector<double> by_place;
    for (const size_t place : places) by_place.push_back(end[slots[places_[place].line]]);
    return by_place;
  }

  const RunSchedule& schedule_;
  const int64_t steps_;
  schedule::FragmentSchedule sends_;
  std::vector<Place> places_;
  std::vector<Wire> lines_;
  Places everyone_, leaders_;
  std::vector<Places> inside_;  // by cluster
  bool meets_inside_ = false;   // over lines, every step
  std::deque<InFlight> in_flight_;
  std::vector<std::deque<std::vector<double>>> inside_in_flight_;
};

// The time of a run, or of a part before its end, whose rounds are all alike.
double even_seconds(const RunSchedule& schedule, bool ends, std::span<const Member> members,
                    std::span<const double> compute) {
  const auto seconds_of = [&](int64_t steps) {
    return RunSimulator(schedule, steps, ends, members, compute).play();
  };
  const int64_t rounds = (schedule.steps + schedule.every - 1) / schedule.every;
  if (rounds <= kSimulatedRounds) return seconds_of(schedule.steps);
  const int64_t played = schedule.steps - (rounds - kSimulatedRounds) * schedule.every;
  const double seconds = seconds_of(played);
  constexpr int64_t kSettled = kSimulatedRounds - kSettlingRounds;
  const double settled = seconds - seconds_of(played - kSettled * schedule.every);
  return seconds + settled / kSettled * static_cast<double>(rounds - kSimulatedRounds);
}

}  // namespace

double run_seconds(const RunSchedule& schedule, std::span<const Member> members,
                   std::span<const double> compute) {
  RunSchedule part = schedule;
  part.steps = std::min(schedule.overlap_after * schedule.every, schedule.steps);
  double seconds = 0;
  if (part.steps > 0) {
    part.overlap_steps = 0;
    seconds += even_seconds(part, part.steps == schedule.steps, members, compute);
  }
  part.steps = schedule.steps - part.steps;
  part.overlap_steps = schedule.overlap_steps;
  if (part.steps > 0) seconds += even_seconds(part, true, members, compute);
  return seconds;
}

}  // namespace thinwire::plan
