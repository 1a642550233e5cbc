#include "thinwire/transport/frame_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "thinwire/base/digest.h"
#include "thinwire/transport/coded_sum.h"

namespace thinwire::transport {
namespace {

// A frame is its kind, then for operations group, run, epoch, round and fragment, then the rest.
enum FrameKind : uint8_t {
  kPayload,
  kContribution,
  kSum,
  kRefusal,
  kWithdrawal,
  kLeave,
  kAbort,
  kNote
};

// From the next one on, so that members who send at once do not all begin with the same receiver.
std::vector<int> others_of(const std::vector<int>& members, int member) {
  const auto own = std::ranges::lower_bound(members, member);
  std::vector<int> others(own + 1, members.end());
  others.insert(others.end(), members.begin(), own);
  return others;
}

Failure left_the_run() { return {FailureKind::kLostPeer, "a worker left the run"}; }

}  // namespace

bool FrameHub::Reduce::has_work() const {
  if (members == nullptr || failure || busy || done) return false;
  if (!coded) return true;
  if (!summed) return contributions.size() == members->size();
  return sums.size() == members->size();
}

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

void FrameHub::contribute(int group, int, const Key& key, std::span<const float> values,
                          const WireCodec& codec) {
  const std::lock_guard lock(mutex_);
  auto& reduce = reduces_[operation(group, key)];
  if (!reduce) reduce = std::make_shared<Reduce>();
  reduce->members = &members_of(group);
  reduce->values = values;
  reduce->codec = &codec;
  changed_.notify_all();
}

Result<void> FrameHub::sum(int group, int, const Key& key, std::span<float> out, double timeout_s) {
  Lock lock(mutex_);
  const Operation name = operation(group, key);
  const auto found = reduces_.find(name);
  if (found == reduces_.end()) throw Error("wait_reduce without start_reduce");
  const std::shared_ptr<Reduce> reduce = found->second;
  auto failure =
      wait(lock, timeout_s, [&] { return reduce->done || reduce->failure || lost(*reduce); });
  if (!failure && !reduce->done) failure = reduce->failure ? *reduce->failure : left_the_run();
  reduces_.erase(name);
  reduce->failure = failure;  // keeps work() from beginning anew
  changed_.wait(lock, [&] { return !reduce->busy; });
  if (failure) return tl::unexpected(*failure);
  std::ranges::copy(reduce->result, out.begin());
  return {};
}

void FrameHub::withdraw(int group, int, const Key& key) {
  Lock lock(mutex_);
  const Operation name = operation(group, key);
  exchanges_.erase(name);
  const auto found = reduces_.find(name);
  if (found == reduces_.end()) return;
  const std::shared_ptr<Reduce> reduce = found->second;
  reduces_.erase(found);
  const bool missed = !reduce->summed;
  reduce->failure = left_the_run();
  changed_.wait(lock, [&] { return !reduce->busy; });
  if (!missed) return;
  for (const int to : members_of(group)) {
    if (to != self_) send(to, kWithdrawal, name, {});
  }
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

bool FrameHub::work() {
  Lock lock(mutex_);
  if (!abort_reason_.empty()) return false;
  const auto found =
      std::ranges::find_if(reduces_, [](const auto& entry) { return entry.second->has_work(); });
  if (found == reduces_.end()) return false;
  const Operation name = found->first;
  const std::shared_ptr<Reduce> reduce = found->second;
  reduce->busy = true;
  lock.unlock();
  if (!reduce->coded) {
    code_contributions(name, *reduce);
  } else if (!reduce->summed) {
    sum_own_chunk(name, *reduce);
  } else {
    decode_sums(*reduce);
  }
  lock.lock();
  reduce->busy = false;
  changed_.notify_all();
  return true;
}

// Frames that arrive meanwhile change the maps, so these hold the lock to look at them.
void FrameHub::code_contributions(const Operation& operation, Reduce& reduce) {
  const std::vector<int>& members = *reduce.members;
  const auto count = static_cast<int>(members.size());
  const int own = place_in(members);
  for (int i = 0; i < count; ++i) {
    const int place = (own + 1 + i) % count;
    const WireChunk chunk = wire_chunk(reduce.codec->type, reduce.values.size(), count, place);
    const auto values = reduce.values.subspan(chunk.begin, chunk.end - chunk.begin);
    Bytes coded(wire_bytes(reduce.codec->type, values.size()));
    reduce.codec->encode(values, coded);
    const std::lock_guard lock(mutex_);
    const int owner = members[static_cast<size_t>(place)];
    if (owner == self_) {
      reduce.contributions[self_] = std::move(coded);
    } else {
      send(owner, kContribution, operation, coded);
    }
  }
  const std::lock_guard lock(mutex_);
  reduce.coded = true;
}

void FrameHub::sum_own_chunk(const Operation& operation, Reduce& reduce) {
  const std::vector<int>& members = *reduce.members;
  const WireChunk own = wire_chunk(reduce.codec->type, reduce.values.size(),
                                   static_cast<int>(members.size()), place_in(members));
  std::vector<float> sum(own.end - own.begin);
  std::vector<float> decoded(sum.size());
  std::optional<Failure> failure;
  for (const auto& [member, coded] : reduce.contributions) {
    const auto done = reduce.codec->decode(coded, decoded);
    if (!done) {
      failure = done.error();
      failure->message = fmt::format("the contribution of member {}: {}", member, failure->message);
      break;
    }
    add_values(decoded, sum);
  }
  Bytes coded(wire_bytes(reduce.codec->type, sum.size()));
  reduce.codec->encode(sum, coded);
  const std::lock_guard lock(mutex_);
  for (const int to : others_of(members, self_)) {
    failure ? send(to, kRefusal, operation, as_bytes(failure->message))
            : send(to, kSum, operation, coded);
  }
  if (failure) reduce.failure = failure;
  reduce.sums[self_] = std::move(coded);
  reduce.summed = true;
}

void FrameHub::decode_sums(Reduce& reduce) {
  const std::vector<int>& members = *reduce.members;
  const auto count = static_cast<int>(members.size());
  reduce.result.resize(reduce.values.size());
  std::optional<Failure> failure;
  for (int place = 0; place < count && !failure; ++place) {
    const WireChunk chunk = wire_chunk(reduce.codec->type, reduce.values.size(), count, place);
    const auto done = reduce.codec->decode(
        reduce.sums.at(members[static_cast<size_t>(place)]),
        std::span(reduce.result).subspan(chunk.begin, chunk.end - chunk.begin));
    if (!done) failure = done.error();
  }
  const std::lock_guard lock(mutex_);
  if (failure) reduce.failure = failure;
  reduce.done = !failure;
}

template <typename Condition>
std::optional<Failure> FrameHub::wait(Lock& lock, double timeout_s, Condition ready) {
  const bool in_time = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                                         [&] { return !abort_reason_.empty() || ready(); });
  if (!abort_reason_.empty()) return Failure{FailureKind::kAborted, abort_reason_};
  if (in_time) return std::nullopt;
  return Failure{FailureKind::kDeadline,
                 fmt::format("no answer from all workers within {} s", timeout_s)};
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

// Whether a member has gone without whom the sum cannot be formed.
bool FrameHub::lost(const Reduce& reduce) const {
  return std::ranges::any_of(*reduce.members, [&](int member) {
    return !present_.contains(member) && !reduce.sums.contains(member);
  });
}

void FrameHub::send(int to, uint8_t kind, const Operation& operation,
                    std::span<const uint8_t> body) {
  Bytes frame;
  frame.reserve(body.size() + 40);
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

int FrameHub::place_in(const std::vector<int>& members) const {
  return static_cast<int>(std::ranges::lower_bound(members, self_) - members.begin());
}

}  // namespace thinwire::transport
