#include "thinwire/transport/frame_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "thinwire/base/digest.h"

namespace thinwire::transport {

FrameHub::FrameHub(int self, int members, Send send)
    : self_(self), members_(members), send_(std::move(send)) {
  std::vector<int> all(static_cast<size_t>(members));
  std::iota(all.begin(), all.end(), 0);
  present_.insert(all.begin(), all.end());
  group(all);
}

int FrameHub::group(const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(groups_, [&](const auto& group) { return group->members == members; });
  if (found != groups_.end()) return static_cast<int>(found - groups_.begin());
  const uint64_t id = hash_bytes(as_bytes(std::span(members)));
  groups_.push_back(std::make_unique<const Group>(members, id));
  return static_cast<int>(groups_.size()) - 1;
}

void FrameHub::offer(int group, int member, const Key& key, Bytes payload) {
  const std::lock_guard lock(mutex_);
  const Operation name = operation(group, key);
  for (const int to : others_of(members_of(group), member)) {
    send(to, FrameKind::kPayload, name, payload);
  }
  exchanges_[name].arrived[member] = std::make_shared<const Bytes>(std::move(payload));
  changed_.notify_all();
}

Result<std::vector<Delivery>> FrameHub::collect(int group, int, const Key& key, double timeout_s) {
  Lock lock(mutex_);
  const Operation name = operation(group, key);
  const auto found = exchanges_.find(name);
  if (found == exchanges_.end()) throw Error("wait_all_gather without start_all_gather");
  Exchange& exchange = found->second;
  const auto closed = [&] { return everyone_arrived(group, exchange); };
  if (auto failure = wait(lock, timeout_s, closed)) return tl::unexpected(*failure);
  std::vector<Delivery> list;
  for (const int id : members_of(group)) {
    const auto arrived = exchange.arrived.find(id);
    if (arrived != exchange.arrived.end()) list.push_back({id, arrived->second});
  }
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
  send_to_all(FrameKind::kLeave, {});
  changed_.notify_all();
}

void FrameHub::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!abort_reason_.empty()) return;
  abort_reason_ = reason.empty() ? "the run was aborted" : reason;
  send_to_all(FrameKind::kAbort, abort_reason_);
  changed_.notify_all();
}

void FrameHub::note(int to, std::span<const uint8_t> bytes) {
  const std::lock_guard lock(mutex_);
  send(to, FrameKind::kNote, {}, bytes);
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
    auto [from, bytes] = std::move(notes_.front());
    notes_.pop_front();
    lock.unlock();
    take_note_(from, std::move(bytes));
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

void FrameHub::wake() {
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

Result<void> FrameHub::deliver(Frame frame) {
  const bool is_note = frame.head.kind == FrameKind::kNote;
  {
    const std::lock_guard lock(mutex_);
    if (auto taken = take_in(std::move(frame)); !taken) return taken;
    changed_.notify_all();
  }
  if (is_note) hand_out_notes();
  return {};
}

Result<void> FrameHub::take_in(Frame frame) {
  const int from = frame.head.from;
  switch (frame.head.kind) {
    case FrameKind::kPayload: {
      auto payload = std::make_shared<const Bytes>(std::move(frame.body));
      auto& arrived = exchanges_[frame.head.operation].arrived;
      if (arrived.emplace(from, std::move(payload)).second) return {};
      return fail(FailureKind::kCorruptPayload, fmt::format("its payload of round {} came before",
                                                            frame.head.operation.key.round));
    }
    case FrameKind::kLeave:
      present_.erase(from);
      return {};
    case FrameKind::kAbort:
      if (abort_reason_.empty()) abort_reason_.assign(frame.body.begin(), frame.body.end());
      return {};
    case FrameKind::kNote:
      notes_.emplace_back(from, std::move(frame.body));
      return {};
    default:
      return take_in_reduce(std::move(frame));
  }
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

Operation FrameHub::operation(int group, const Key& key) const {
  return {groups_[static_cast<size_t>(group)]->id, key};
}

const std::vector<int>& FrameHub::members_of(int group) const {
  return groups_[static_cast<size_t>(group)]->members;
}

bool FrameHub::everyone_arrived(int group, const Exchange& exchange) const {
  return std::ranges::all_of(members_of(group), [&](int member) {
    return exchange.arrived.contains(member) || !present_.contains(member);
  });
}

void FrameHub::send(int to, FrameKind kind, const Operation& operation,
                    std::span<const uint8_t> body) {
  send_(to, encode_frame({kind, self_, to, operation}, body));
}

void FrameHub::send_to_all(FrameKind kind, std::string_view body) {
  for (const int to : groups_.front()->members) {
    if (to != self_) send(to, kind, {}, as_bytes(body));
  }
}

void deliver_frame(std::span<const std::shared_ptr<FrameHub>> hubs, int first_sender,
                   int end_sender, Bytes bytes) {
  const int first = hubs.front()->self();
  const auto count = static_cast<int>(hubs.size());
  const auto take_in = [&]() -> Result<void> {
    Result<Frame> frame = decode_frame(std::move(bytes), hubs.front()->members());
    if (!frame) return tl::unexpected(frame.error());
    const auto [kind, from, to, operation] = frame->head;
    if (from < first_sender || from >= end_sender || to < first || to >= first + count) {
      return fail(FailureKind::kCorruptPayload,
                  fmt::format("it goes from member {} to {}", from, to));
    }
    return hubs[static_cast<size_t>(to - first)]->deliver(*std::move(frame));
  };
  const Result<void> taken = take_in();
  if (taken) return;
  hubs.front()->abort(fmt::format("a damaged frame came from the process of members {} to {}: {}",
                                  first_sender, end_sender - 1, taken.error().message));
}

}  // namespace thinwire::transport
