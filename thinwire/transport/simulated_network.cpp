#include "thinwire/transport/simulated_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace thinwire::transport {

SimulatedNetwork::SimulatedNetwork(const std::vector<links::Member>& members) {
  for (const links::Member& member : members) {
    states_.emplace_back();
    states_.back().line.link = member.link;
    states_.back().step_s = member.step_s;
  }
}

double SimulatedNetwork::compute(int member, double steps) {
  const std::lock_guard lock(mutex_);
  const double seconds = steps * state(member).step_s;
  state(member).clock += seconds;
  return seconds;
}

double SimulatedNetwork::clock(int member) const {
  const std::lock_guard lock(mutex_);
  return state(member).clock;
}

void SimulatedNetwork::start_all_gather(int member, const Name& name, uint64_t payload_bytes) {
  const std::lock_guard lock(mutex_);
  start(member, name)->payload_bytes[member] = payload_bytes;
  end_what_can();
}

void SimulatedNetwork::start_all_reduce(int member, const Name& name, WireType type,
                                        size_t values) {
  const std::lock_guard lock(mutex_);
  const Pointer operation = start(member, name);
  operation->type = type;
  operation->values = values;
  end_what_can();
}

SimulatedNetwork::Pointer SimulatedNetwork::start(int member, const Name& name) {
  Pointer& operation = operations_[name];
  if (!operation) {
    operation = std::make_shared<Operation>();
    operation->name = name;
    operation->open = name.members.size();
  }
  operation->started[member] = state(member).clock;
  state(member).queue.push_back(operation);
  return operation;
}

Result<void> SimulatedNetwork::finish(int member, const Name& name, double timeout_s) {
  std::unique_lock lock(mutex_);
  const auto found = operations_.find(name);
  if (found == operations_.end()) throw Error("a simulated operation ends that nobody started");
  const Pointer operation = found->second;
  const auto patience = std::chrono::duration<double>(timeout_s);
  const bool in_time = changed_.wait_for(
      lock, patience, [&] { return operation->ended || abort_reason_.has_value(); });
  if (abort_reason_) return fail(FailureKind::kAborted, *abort_reason_);
  if (!in_time) {
    return fail(FailureKind::kDeadline,
                fmt::format("an earlier operation of member {} was not started by all within {} s",
                            member, timeout_s));
  }
  state(member).clock = std::max(state(member).clock, operation->end[member]);
  close(member, name);
  return {};
}

void SimulatedNetwork::cancel(int member, const Name& name) {
  const std::lock_guard lock(mutex_);
  const auto found = operations_.find(name);
  if (found == operations_.end() || !found->second->started.contains(member)) return;
  std::erase(state(member).queue, found->second);
  close(member, name);
  end_what_can();
}

void SimulatedNetwork::leave(int member) {
  const std::lock_guard lock(mutex_);
  state(member).present = false;
  end_what_can();
}

void SimulatedNetwork::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_) abort_reason_ = reason;
  changed_.notify_all();
}

void SimulatedNetwork::close(int member, const Name& name) {
  const Pointer operation = operations_.at(name);
  operation->end.try_emplace(member, state(member).clock);
  if (--operation->open == 0) operations_.erase(name);
}

bool SimulatedNetwork::everyone_started(const Operation& operation) const {
  return std::ranges::all_of(operation.name.members, [&](int member) {
    return operation.started.contains(member) || !state(member).present;
  });
}

// An operation ends when all have started it and it is the first that waits on each of its links.
void SimulatedNetwork::end_what_can() {
  const auto first_everywhere = [&](const Pointer& operation) {
    return std::ranges::all_of(operation->name.members, [&](int member) {
      const auto& queue = state(member).queue;
      return std::ranges::find(queue, operation) == queue.end() || queue.front() == operation;
    });
  };
  for (bool more = true; more;) {
    more = false;
    for (State& one : states_) {
      if (one.queue.empty()) continue;
      const Pointer operation = one.queue.front();
      if (!everyone_started(*operation) || !first_everywhere(operation)) continue;
      operation->name.reduce ? end_reduce(*operation) : end_exchange(*operation);
      operation->ended = more = true;
      for (State& other : states_) std::erase(other.queue, operation);
    }
  }
  changed_.notify_all();
}

void SimulatedNetwork::end_exchange(Operation& operation) {
  std::vector<int> members;
  std::vector<double> ready;
  std::vector<uint64_t> payloads;
  for (const auto& [member, clock] : operation.started) {
    members.push_back(member);
    ready.push_back(clock);
    payloads.push_back(operation.payload_bytes[member]);
  }
  if (members.size() < 2) payloads.assign(members.size(), 0);
  const std::vector<double> end =
      run_round_trip(members, ready, payloads, [&](size_t from, size_t) { return payloads[from]; });
  for (size_t i = 0; i < members.size(); ++i) operation.end[members[i]] = end[i];
}

void SimulatedNetwork::end_reduce(Operation& operation) {
  const std::vector<int>& members = operation.name.members;
  const auto count = static_cast<int>(members.size());
  std::vector<double> ready;
  std::vector<uint64_t> chunks;
  std::vector<uint64_t> sums;
  for (int i = 0; i < count; ++i) {
    const WireChunk own = wire_chunk(operation.type, operation.values, count, i);
    chunks.push_back(wire_bytes(operation.type, own.end - own.begin));
    sums.push_back(chunks.back() * static_cast<uint64_t>(count - 1));
    const int member = members[static_cast<size_t>(i)];
    const auto started = operation.started.find(member);
    ready.push_back(started == operation.started.end() ? state(member).clock : started->second);
  }
  const uint64_t all = std::accumulate(chunks.begin(), chunks.end(), uint64_t{0});
  std::vector<uint64_t> contributions;
  contributions.reserve(chunks.size());
  for (const uint64_t chunk : chunks) contributions.push_back(all - chunk);
  ready =
      run_round_trip(members, ready, contributions, [&](size_t, size_t to) { return chunks[to]; });
  ready = run_round_trip(members, ready, sums, [&](size_t from, size_t) { return chunks[from]; });
  for (size_t i = 0; i < members.size(); ++i) operation.end[members[i]] = ready[i];
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
