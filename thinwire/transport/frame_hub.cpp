#include "thinwire/transport/frame_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "thinwire/base/digest.h"

namespace thinwire::transport {

FrameHub::FrameHub(int self, int members, Send send) : self_(self), send_(std::move(send)) {
  std::vector<int> all(static_cast<size_t>(members));
  std::iota(all.begin(), all.end(), 0);
  present_.insert(all.begin(), all.end());
  group(all);
}

int FrameHub::group(const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(groups_, [&](const auto& group) { return *group == members; });
  if (found != groups_.end()) return static_cast<int>(found - groups_.begin());
  groups_.push_back(std::make_unique<const std::vector<int>>(members));
  return static_cast<int>(groups_.size()) - 1;
}

void FrameHub::offer(int group, int member, const Key& key, Bytes payload) {
  const uint64_t hash = hash_bytes(payload);
  const std::lock_guard lock(mutex_);
  const Operation name = operation(group, key);
  for (const int to : others_of(members_of(group), member)) send(to, kPayload, name, payload);
  auto shared = std::make_shared<const Bytes>(std::move(payload));
  exchanges_[name].arrived[member] = {member, hash, std::move(shared)};
  changed_.notify_all();
}

Result<std::vector<Delivery>> FrameHub::collect(int group, int, const Key& key, double timeout_s) {
  Lock lock(mutex_);
  const Operation name = operation(group, key);
  const auto found = exchanges_.find(name);
  if (found == exchanges_.end()) throw Error("wait_exchange without start_exchange");
  Exchange& exchange = found->second;
  const auto closed = [&] { return everyone_arrived(group, exchange); };
  if (auto failure = wait(lock, timeout_s, closed)) return tl::unexpected(*failure);
  std::vector<Delivery> list;
  for (const auto& [id, delivery] : exchange.arrived) list.push_back(delivery);
  exchanges_.erase(name);
  return list;
}

void FrameHub::leave(int) {
  Lock lock(mutex_);
  if (present_.erase(self_) == 0) return;
  for (const auto& [name, reduce] : reduces_) {
    if (!reduce->done && !reduce->failure) reduce->failure = left_the_run();
  }
  changed_.wait(lock, [&] {
    return std::ranges::none_of(reduces_, [](const auto& entry) { return entry.second->busy; });
  });
  send_to_all(kLeave, {});
  changed_.notify_all();
}

void FrameHub::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_.empty()) return;
  abort_reason_ = reason.empty() ? "the run was aborted" : reason;
  send_to_all(kAbort, abort_reason_);
  changed_.notify_all();
}

void FrameHub::note(int to, std::span<const uint8_t> bytes) {
  const std::lock_guard lock(mutex_);
  Bytes frame = {kNote};
  ByteWriter(frame).put_bytes(bytes);
  send_(to, std::move(frame));
}

void FrameHub::take_notes(TakeNote take) {
  {
    const std::lock_guard lock(mutex_);
    take_note_ = std::move(take);
  }
  hand_out_notes();
}

// One thread at a time, so that notes are taken in the order of their arrival.
void FrameHub::hand_out_notes() {
  const std::lock_guard handing_out(note_mutex_);
  Lock lock(mutex_);
  while (take_note_ && !notes_.empty()) {
    const auto [from, bytes] = std::move(notes_.front());
    notes_.pop_front();
    lock.unlock();
    take_note_(from, bytes);
    lock.lock();
  }
  changed_.notify_all();
}

Result<void> FrameHub::wait_until(const std::function<bool()>& ready) {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return !abort_reason_.empty() || ready(); });
  if (!abort_reason_.empty()) return fail(FailureKind::kAborted, abort_reason_);
  return {};
}

void FrameHub::deliver(int from, Bytes frame) {
  ByteReader reader(frame);
  const auto kind = reader.get<uint8_t>();
  Lock lock(mutex_);
  if (kind == kNote) {
    const auto body = reader.get_bytes(reader.remaining());
    notes_.emplace_back(from, Bytes(body.begin(), body.end()));
    lock.unlock();
    hand_out_notes();
    return;
  }
  if (kind == kLeave) {
    present_.erase(from);
  } else if (kind == kAbort) {
    const auto body = reader.get_bytes(reader.remaining());
    if (abort_reason_.empty()) abort_reason_.assign(body.begin(), body.end());
  } else {
    Operation name{};
    name.group = reader.get<uint64_t>();
    name.key = {reader.get<uint64_t>(), reader.get<uint32_t>(), reader.get<uint64_t>(),
                reader.get<uint32_t>()};
    const auto body = reader.get_bytes(reader.remaining());
    Bytes bytes(body.begin(), body.end());
    if (kind == kPayload) {
      const uint64_t hash = hash_bytes(bytes);
      exchanges_[name].arrived[from] = {from, hash,
                                        std::make_shared<const Bytes>(std::move(bytes))};
    } else {
      auto& reduce = reduces_[name];
      if (!reduce) reduce = std::make_shared<Reduce>();
      if (kind == kContribution) {
        reduce->contributions[from] = std::move(bytes);
      } else if (kind == kSum) {
        reduce->sums[from] = std::move(bytes);
      } else if (kind == kWithdrawal && !reduce->failure) {
        reduce->failure = left_the_run();
      } else if (kind == kRefusal && !reduce->failure) {
        reduce->failure = Failure{FailureKind::kCorruptPayload, {bytes.begin(), bytes.end()}};
      }
    }
  }
  changed_.notify_all();
}

std::optional<Failure> FrameHub::wait(Lock& lock, double timeout_s,
                                      const std::function<bool()>& ready) {
  const bool in_time = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                                         [&] { return !abort_reason_.empty() || ready(); });
  if (!abort_reason_.empty()) return Failure{FailureKind::kAborted, abort_reason_};
  if (in_time) return std::nullopt;
  return Failure{FailureKind::kDeadline,
                 fmt::format("no answer from all workers within {} s", timeout_s)};
}

Failure FrameHub::left_the_run() { return {FailureKind::kLostPeer, "a worker left the run"}; }

std::vector<int> FrameHub::others_of(const std::vector<int>& members, int member) {
  const auto own = std::ranges::lower_bound(members, member);
  std::vector<int> others(own + 1, members.end());
  others.insert(others.end(), members.begin(), own);
  return others;
}

FrameHub::Operation FrameHub::operation(int group, const Key& key) const {
  return {hash_bytes(as_bytes(std::span(members_of(group)))), key};
}

const std::vector<int>& FrameHub::members_of(int group) const {
  return *groups_[static_cast<size_t>(group)];
}

bool FrameHub::everyone_arrived(int group, const Exchange& exchange) const {
  return std::ranges::all_of(members_of(group), [&](int member) {
    return exchange.arrived.contains(member) || !present_.contains(member);
  });
}

void FrameHub::send(int to, uint8_t kind, const Operation& operation,
                    std::span<const uint8_t> body) {
  Bytes frame;
  frame.reserve(body.size() + 48);
  ByteWriter writer(frame);
  writer.put(kind);
  writer.put(operation.group);
  writer.put(operation.key.run);
  writer.put(operation.key.epoch);
  writer.put(operation.key.round);
  writer.put(operation.key.fragment);
  writer.put_bytes(body);
  send_(to, std::move(frame));
}

void FrameHub::send_to_all(uint8_t kind, const std::string& body) {
  for (const int to : *groups_.front()) {
    if (to == self_) continue;
    Bytes frame = {kind};
    ByteWriter(frame).put_bytes(as_bytes(body));
    send_(to, std::move(frame));
  }
}

}  // namespace thinwire::transport
