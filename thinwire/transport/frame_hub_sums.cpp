// The sums of a FrameHub.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "thinwire/transport/coded_sum.h"
#include "thinwire/transport/frame_hub.h"

namespace thinwire::transport {

bool FrameHub::Reduce::has_work() const {
  if (members == nullptr || failure || busy || done) return false;
  if (!coded) return true;
  return has_all(summed ? sums : contributions);
}

bool FrameHub::Reduce::has_all(const std::map<int, Bytes>& arrived) const {
  return std::ranges::all_of(*members, [&](int member) { return arrived.contains(member); });
}

Result<void> FrameHub::take_in_reduce(Frame frame) {
  auto& reduce = reduces_[frame.head.operation];
  if (!reduce) reduce = std::make_shared<Reduce>();
  const FrameKind kind = frame.head.kind;
  if (kind == FrameKind::kContribution || kind == FrameKind::kSum) {
    auto& arrived = kind == FrameKind::kSum ? reduce->sums : reduce->contributions;
    if (arrived.emplace(frame.head.from, std::move(frame.body)).second) return {};
    return fail(
        FailureKind::kCorruptPayload,
        fmt::format("its part of the sum of round {} came before", frame.head.operation.key.round));
  }
  if (reduce->failure) return {};
  if (kind == FrameKind::kWithdrawal) {
    reduce->failure = left_the_run();
  } else {
    reduce->failure = Failure{FailureKind::kCorruptPayload, {frame.body.begin(), frame.body.end()}};
  }
  return {};
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
  if (found == reduces_.end()) throw Error("wait_all_reduce without start_all_reduce");
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
    if (to != self_) send(to, FrameKind::kWithdrawal, name, {});
  }
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
      send(owner, FrameKind::kContribution, operation, coded);
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
  for (const int member : members) {
    const auto done = reduce.codec->decode(reduce.contributions.at(member), decoded);
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
    failure ? send(to, FrameKind::kRefusal, operation, as_bytes(failure->message))
            : send(to, FrameKind::kSum, operation, coded);
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

// Whether a member has gone without whom the sum cannot be formed.
bool FrameHub::lost(const Reduce& reduce) const {
  return std::ranges::any_of(*reduce.members, [&](int member) {
    return !present_.contains(member) && !reduce.sums.contains(member);
  });
}

int FrameHub::place_in(const std::vector<int>& members) const {
  return static_cast<int>(std::ranges::lower_bound(members, self_) - members.begin());
}

}  // namespace thinwire::transport
