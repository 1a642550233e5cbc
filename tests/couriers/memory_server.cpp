#include "tests/couriers/memory_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace thinwire::transport {
namespace {

constexpr size_t kHeadBytes = 100;  // of a message, about what NATS adds

Result<void> full() { return fail(FailureKind::kRefused, "the server's disk is full"); }

}  // namespace

MemoryServer::Moment MemoryServer::at(double time, std::function<void()> event) {
  const Moment moment{std::max(time, now), ++last_event};
  events.emplace(moment, std::move(event));
  return moment;
}

bool MemoryServer::step(double until) {
  std::deque<std::function<void()>> ready;
  {
    const Lock lock(mutex);
    if (calls.empty()) {
      if (events.empty() || events.begin()->first.first > until) return false;
      auto event = events.extract(events.begin());
      now = event.key().first;
      event.mapped()();
    }
    ready = std::exchange(calls, {});
  }
  for (const auto& call : ready) call();
  return true;
}

Result<void> MemoryServer::store(const std::string& holder, const Chunk& chunk) {
  if (chunks.contains({holder, chunk.key})) return {};
  if (used_bytes + chunk.bytes.size() > disk_bytes) return full();
  used_bytes += chunk.bytes.size();
  chunks.emplace(std::pair(holder, chunk.key), Bytes(chunk.bytes.begin(), chunk.bytes.end()));
  return {};
}

void MemoryServer::drop(const std::string& holder, const Sha256& blob) {
  auto one = chunks.lower_bound({holder, {blob, {}}});
  while (one != chunks.end() && one->first.first == holder && one->first.second.blob == blob) {
    used_bytes -= one->second.size();
    one = chunks.erase(one);
  }
}

Result<Bytes> MemoryServer::find(const std::string& holder, const ChunkKey& key) {
  const auto chunk = chunks.find({holder, key});
  if (chunk == chunks.end()) {
    return fail(FailureKind::kLostPeer,
                fmt::format("{} has no chunk {}", holder, to_hex(key.chunk)));
  }
  Bytes bytes = chunk->second;
  const double alter = options.faults.alter;
  if (alter > 0 && !bytes.empty() && rng.uniform() < alter) bytes[rng.below(bytes.size())] ^= 1;
  return bytes;
}

std::vector<StoredBlob> MemoryServer::list(const std::string& holder) const {
  std::vector<StoredBlob> blobs;
  for (auto one = chunks.lower_bound({holder, {}}); one != chunks.end(); ++one) {
    if (one->first.first != holder) break;
    const Sha256& blob = one->first.second.blob;
    if (blobs.empty() || blobs.back().name != blob) blobs.push_back({blob});
    ++blobs.back().chunks;
  }
  return blobs;
}

Result<uint64_t> MemoryServer::append(const std::string& stream, uint64_t expected_last,
                                      const Bytes& record) {
  std::vector<Bytes>& records = streams[stream];
  if (records.size() != expected_last) {
    return fail(FailureKind::kStaleRound, fmt::format("the last sequence of {} is {}, not {}",
                                                      stream, records.size(), expected_last));
  }
  if (used_bytes + record.size() > disk_bytes) return tl::unexpected(full().error());
  used_bytes += record.size();
  records.push_back(record);
  for (const auto& [name, participant] : participants) {
    participant->is_at(*this);
    const auto reads = [&](const auto& one) { return one.second.stream == stream; };
    if (std::ranges::any_of(participant->readers, reads))
      participant->send_record(stream, records.size());
  }
  return records.size();
}

void MemoryServer::lose_records(const std::string& stream, size_t count) {
  std::vector<Bytes>& records = streams[stream];
  for (; count > 0 && !records.empty(); --count) {
    used_bytes -= records.back().size();
    records.pop_back();
  }
}

void MemoryServer::broadcast(const std::string& author, const std::string& topic,
                             const Bytes& statement) {
  const MemoryFaults& faults = options.faults;
  for (const auto& [name, participant] : participants) {
    participant->is_at(*this);
    for (const auto& [number, subscriber] : participant->subscribers) {
      if (!subscriber.wants(author, topic) || rng.uniform() < faults.lose) continue;
      for (int left = rng.uniform() < faults.duplicate ? 2 : 1; left > 0; --left) {
        const auto arrive =
            [this, listener = subscriber.listener, author, statement]()
                REQUIRES(mutex) { calls.emplace_back([=] { listener->call(author, statement); }); };
        participant->receive(statement.size(), arrive, faults.statement_delay_s * rng.uniform());
      }
    }
  }
}

MemoryParticipant::MemoryParticipant(MemoryServer& at, std::string name, const links::Link& link)
    : server(at),
      transfers(*this, at.options.timeout_s, at.options.max_blob_bytes),
      name_(std::move(name)),
      link_(link),
      pacer_(link) {}

std::function<void()> MemoryParticipant::if_still_connected(std::function<void()> arrive) {
  return [this, self = server.participants.at(name_), connection = connection_,
          arrive = std::move(arrive)]() REQUIRES(server.mutex) {
    if (connection_ == connection) arrive();
  };
}

bool MemoryParticipant::loses_connection() {
  const MemoryFaults& faults = server.options.faults;
  if (faults.disconnect == 0 || server.rng.uniform() >= faults.disconnect) return false;
  disconnect();
  server.at(server.now + faults.reconnect_s,
            if_still_connected([this]() REQUIRES(server.mutex) { reconnect(); }));
  return true;
}

void MemoryParticipant::send(size_t bytes, std::function<void()> arrive) {
  if (!connected_ || loses_connection()) return;
  const double when = pacer_.leave(server.now, bytes + kHeadBytes) + link_.delay_s;
  server.at(when, if_still_connected(std::move(arrive)));
}

void MemoryParticipant::receive(size_t bytes, std::function<void()> arrive, double later_s) {
  if (!connected_ || loses_connection()) return;
  const double when = pacer_.arrive(server.now + link_.delay_s, bytes + kHeadBytes) + later_s;
  server.at(when, if_still_connected(std::move(arrive)));
}

void MemoryParticipant::disconnect() {
  connected_ = false;
  ++connection_;
}

void MemoryParticipant::reconnect() {
  if (connected_) return;
  connected_ = true;
  pacer_ = Pacer(link_);
  transfers.resend(server.now);
  for (const auto& [number, reader] : readers) catch_up(reader.stream, reader.next);
  settle();
}

void MemoryParticipant::close() {
  disconnect();
  const Failure closed{FailureKind::kAborted, "the courier was closed"};
  transfers.close(closed);
  collect_answers();
  while (!asked_.empty()) answer(asked_.begin()->first, tl::unexpected(closed));
  if (expiry_) server.events.erase(*expiry_);
  subscribers.clear();
  readers.clear();
}

void MemoryParticipant::collect_answers() {
  for (auto& answer : transfers.take_answers()) server.calls.push_back(std::move(answer));
}

void MemoryParticipant::settle() {
  collect_answers();
  if (expiry_) server.events.erase(*expiry_);
  expiry_.reset();
  const double next = transfers.next_deadline();
  if (next == std::numeric_limits<double>::infinity()) return;
  expiry_ = server.at(next, [this]() REQUIRES(server.mutex) {
    expiry_.reset();
    transfers.expire(server.now);
    settle();
  });
}

void MemoryParticipant::store(uint64_t ticket, const Chunk& chunk) {
  // The chunk's memory may be gone when it arrives, its transfer having failed.
  const auto bytes = std::make_shared<const Bytes>(chunk.bytes.begin(), chunk.bytes.end());
  send(bytes->size(), [this, ticket, key = chunk.key, bytes]() REQUIRES(server.mutex) {
    const Result<void> result = server.store(name_, {key, *bytes});
    receive(0, [this, ticket, result]() REQUIRES(server.mutex) {
      transfers.stored(server.now, ticket, result);
      settle();
    });
  });
}

void MemoryParticipant::fetch(uint64_t ticket, const ChunkKey& key, const std::string& holder) {
  send(0, [this, ticket, key, holder]() REQUIRES(server.mutex) {
    const Result<Bytes> chunk = server.find(holder, key);
    receive(chunk ? chunk->size() : 0, [this, ticket, chunk]() REQUIRES(server.mutex) {
      transfers.fetched(server.now, ticket, chunk);
      settle();
    });
  });
}

void MemoryParticipant::ask(size_t bytes, Act act, Courier::Appended answered) {
  const uint64_t number = ++server.last_event;
  asked_.emplace(number, std::move(answered));
  const auto self = server.participants.at(name_);
  const auto late = [self, number]() REQUIRES(self->server.mutex) {
    self->answer(number, fail(FailureKind::kDeadline, "the server did not answer in time"));
  };
  const auto deadline = server.at(server.now + server.options.timeout_s, late);
  send(bytes, [this, act = std::move(act), number, deadline]() REQUIRES(server.mutex) {
    receive(0, [this, number, deadline, result = act(server)]() REQUIRES(server.mutex) {
      server.events.erase(deadline);
      answer(number, result);
    });
  });
}

void MemoryParticipant::answer(uint64_t number, const Result<uint64_t>& result) {
  auto asked = asked_.extract(number);
  if (asked.empty()) return;
  server.calls.emplace_back([call = std::move(asked.mapped()), result] { call(result); });
}

void MemoryParticipant::catch_up(const std::string& stream, uint64_t first) {
  send(0, [this, stream, first]() REQUIRES(server.mutex) {
    const size_t records = server.streams[stream].size();
    for (uint64_t sequence = first; sequence <= records; ++sequence) send_record(stream, sequence);
  });
}

void MemoryParticipant::send_record(const std::string& stream, uint64_t sequence) {
  const Bytes& record = server.streams[stream][sequence - 1];
  receive(record.size(), [this, stream, sequence, record]()
                             REQUIRES(server.mutex) { take(stream, sequence, record); });
}

void MemoryParticipant::take(const std::string& stream, uint64_t sequence, const Bytes& record) {
  for (auto& [number, reader] : readers) {
    if (reader.stream != stream || reader.next != sequence) continue;
    ++reader.next;
    server.calls.emplace_back(
        [listener = reader.listener, sequence, record] { listener->call(sequence, record); });
  }
}

}  // namespace thinwire::transport
