#include "thinwire/transport/simulated_network.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "thinwire/transport/rendezvous.h"

namespace thinwire::transport {

SimulatedNetwork::SimulatedNetwork(const std::vector<links::Member>& members) {
  for (const links::Member& member : members) {
    states_.emplace_back();
    states_.back().line.link = member.link;
    states_.back().step_s = member.step_s;
  }
}

double SimulatedNetwork::compute(int member, double steps) {
  const Lock lock(mutex_);
  const double seconds = steps * state(member).step_s;
  state(member).clock += seconds;
  return seconds;
}

double SimulatedNetwork::step_seconds(int member) const {
  const Lock lock(mutex_);
  return state(member).step_s;
}

double SimulatedNetwork::clock(int member) const {
  const Lock lock(mutex_);
  return state(member).clock;
}

void SimulatedNetwork::started(const Rendezvous& rendezvous, const Start& start) {
  const Lock lock(mutex_);
  Pointer& transfer = transfers_[{start.collective, start.operation}];
  if (!transfer) {
    transfer = std::make_shared<Transfer>();
    transfer->name = {start.collective, start.operation};
  }
  transfer->started[start.member] = state(start.member).clock;
  transfer->payload_bytes[start.member] = start.payload_bytes;
  transfer->formats = start.formats;
  transfer->values = start.values;
  transfer->from.assign(start.from.begin(), start.from.end());
  State& own = state(start.member);
  if (own.queue.empty()) {
    own.line.up.forget_before(earliest());
    own.line.down.forget_before(earliest());
  }
  own.queue.push_back(transfer);
  end_what_can(rendezvous);
}

bool SimulatedNetwork::arrived(Collective collective, const Operation& operation) const {
  const Lock lock(mutex_);
  return transfers_.at({collective, operation})->ended;
}

void SimulatedNetwork::taken(Collective collective, const Operation& operation, int member) {
  const Lock lock(mutex_);
  const double end = transfers_.at({collective, operation})->end.at(member);
  state(member).clock = std::max(state(member).clock, end);
}

void SimulatedNetwork::cancelled(const Rendezvous& rendezvous, Collective collective,
                                 const Operation& operation, int member) {
  const Lock lock(mutex_);
  const auto found = transfers_.find({collective, operation});
  if (found == transfers_.end()) return;
  std::erase(state(member).queue, found->second);
  end_what_can(rendezvous);
}

void SimulatedNetwork::forgotten(const Rendezvous& rendezvous, Collective collective,
                                 const Operation& operation) {
  const Lock lock(mutex_);
  const auto found = transfers_.find({collective, operation});
  if (found == transfers_.end()) return;
  for (State& one : states_) std::erase(one.queue, found->second);
  transfers_.erase(found);
  end_what_can(rendezvous);
}

void SimulatedNetwork::left(const Rendezvous& rendezvous) {
  const Lock lock(mutex_);
  end_what_can(rendezvous);
}

double SimulatedNetwork::earliest() const {
  double earliest = std::numeric_limits<double>::infinity();
  for (size_t member = 0; member < states_.size(); ++member) {
    const State& one = states_[member];
    const double start =
        one.queue.empty() ? one.clock : one.queue.front()->started.at(static_cast<int>(member));
    earliest = std::min(earliest, start);
  }
  return earliest;
}

// An operation ends when all have started it and it is the first in the queue of each of its links.
bool SimulatedNetwork::can_end(const Transfer& transfer, const Rendezvous& rendezvous) const {
  return std::ranges::all_of(
      rendezvous.members(transfer.name.operation.group), [&](int member) REQUIRES(mutex_) {
        const auto& queue = state(member).queue;
        const auto waits = [&](const Pointer& one) { return one.get() == &transfer; };
        const bool first = std::ranges::none_of(queue, waits) || waits(queue.front());
        return first && (transfer.started.contains(member) || !rendezvous.present(member));
      });
}

void SimulatedNetwork::end_what_can(const Rendezvous& rendezvous) {
  for (bool more = true; more;) {
    more = false;
    for (State& one : states_) {
      if (one.queue.empty()) continue;
      const Pointer transfer = one.queue.front();
      if (!can_end(*transfer, rendezvous)) continue;
      if (transfer->name.collective == Collective::kAllGather) {
        end_all_gather(*transfer);
      } else {
        end_all_reduce(*transfer, rendezvous.members(transfer->name.operation.group));
      }
      transfer->ended = more = true;
      for (State& other : states_) std::erase(other.queue, transfer);
    }
  }
}

void SimulatedNetwork::end_all_gather(Transfer& transfer) {
  std::vector<int> members;
  std::vector<double> ready;
  std::vector<uint64_t> payloads;
  for (const auto& [member, clock] : transfer.started) {
    members.push_back(member);
    ready.push_back(clock);
    payloads.push_back(transfer.payload_bytes[member]);
  }
  if (members.size() < 2) payloads.assign(members.size(), 0);
  const std::vector<double> end =
      run_round_trip(members, ready, payloads, [&](size_t from, size_t) { return payloads[from]; });
  for (size_t i = 0; i < members.size(); ++i) transfer.end[members[i]] = end[i];
}

void SimulatedNetwork::end_all_reduce(Transfer& transfer, const std::vector<int>& members) {
  const std::vector<int>& owners = transfer.from.empty() ? members : transfer.from;
  std::vector<double> ready;
  std::vector<uint64_t> parts;   // of each contribution to the member's chunk; one that follows has
  std::vector<uint64_t> chunks;  // no chunk
  std::vector<uint64_t> sums;
  int owner = 0;
  for (const int member : members) {
    WireChunk own;
    if (std::ranges::binary_search(owners, member)) {
      own = wire_chunk(transfer.formats.sent, transfer.values, static_cast<int>(owners.size()),
                       owner++);
    }
    parts.push_back(wire_bytes(transfer.formats.sent, own.end - own.begin));
    chunks.push_back(wire_bytes(transfer.formats.sum, own.end - own.begin));
    sums.push_back(chunks.back() * (members.size() - 1));
    const auto started = transfer.started.find(member);
    ready.push_back(started == transfer.started.end() ? state(member).clock : started->second);
  }
  const uint64_t all = std::accumulate(parts.begin(), parts.end(), uint64_t{0});
  std::vector<uint64_t> contributions;
  contributions.reserve(parts.size());
  for (size_t i = 0; i < members.size(); ++i) {
    const bool contributes = std::ranges::binary_search(owners, members[i]);
    contributions.push_back(contributes ? all - parts[i] : 0);
  }
  ready = run_round_trip(members, ready, contributions, [&](size_t from, size_t to) {
    return std::ranges::binary_search(owners, members[from]) ? parts[to] : 0;
  });
  ready = run_round_trip(members, ready, sums, [&](size_t from, size_t) { return chunks[from]; });
  for (size_t i = 0; i < members.size(); ++i) transfer.end[members[i]] = ready[i];
}

std::vector<double> SimulatedNetwork::run_round_trip(
    const std::vector<int>& members, const std::vector<double>& ready,
    const std::vector<uint64_t>& up_bytes,
    const std::function<uint64_t(size_t from, size_t to)>& bytes) {
  std::vector<links::Line*> lines;
  lines.reserve(members.size());
  for (const int member : members) lines.push_back(&state(member).line);
  const std::vector<double> up(up_bytes.begin(), up_bytes.end());
  return links::run_round_trip(lines, ready, up, [&](size_t from, size_t to) {
    return from == to ? 0.0 : static_cast<double>(bytes(from, to));
  });
}

}  // namespace thinwire::transport
