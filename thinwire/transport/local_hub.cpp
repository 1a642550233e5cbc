#include "thinwire/transport/local_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

namespace thinwire::transport {
namespace {

// Small enough for the second-level cache, and for a member that goes not to wait long.
constexpr size_t kPieceValues = 16384;

}  // namespace

LocalHub::LocalHub(int members) {
  std::vector<int> all(static_cast<size_t>(members));
  std::iota(all.begin(), all.end(), 0);
  present_.insert(all.begin(), all.end());
  groups_.push_back(std::move(all));
}

LocalHub::~LocalHub() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

int LocalHub::group(const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(groups_, members);
  if (found != groups_.end()) return static_cast<int>(found - groups_.begin());
  groups_.push_back(members);
  return static_cast<int>(groups_.size()) - 1;
}

void LocalHub::offer(int group, int member, const Key& key, Bytes payload) {
  auto shared = std::make_shared<const Bytes>(std::move(payload));
  const std::lock_guard lock(mutex_);
  Exchange& exchange = exchanges_[{group, key}];
  exchange.arrived[member] = {member, std::move(shared)};
  close_if_complete(group, exchange);
}

Result<std::vector<Delivery>> LocalHub::collect(int group, int member, const Key& key,
                                                double timeout_s) {
  Lock lock(mutex_);
  const auto found = exchanges_.find({group, key});
  if (found == exchanges_.end()) throw Error("wait_all_gather without start_all_gather");
  Exchange& exchange = found->second;
  if (auto failure = wait(lock, timeout_s, [&] { return exchange.closed; })) {
    return tl::unexpected(*failure);
  }
  std::vector<Delivery> list;
  for (const auto& [id, delivery] : exchange.arrived) list.push_back(delivery);
  exchange.collected.insert(member);
  if (everyone_in(group, exchange.collected)) exchanges_.erase(found);
  return list;
}

void LocalHub::contribute(int group, int member, const Key& key, std::span<const float> values,
                          const WireCodec& codec) {
  const std::lock_guard lock(mutex_);
  auto& reduce = reduces_[{group, key}];
  const std::vector<int>& members = groups_[static_cast<size_t>(group)];
  if (!reduce) {
    reduce = std::make_shared<Reduce>();
    reduce->members = members.size();
    reduce->codec = &codec;
    reduce->sum.resize(values.size());
  }
  if (reduce->codec->type != codec.type || reduce->sum.size() != values.size()) {
    throw Error(fmt::format("member {} contributes {} values as {} to a sum of {} as {}", member,
                            values.size(), wire_name(codec.type), reduce->sum.size(),
                            wire_name(reduce->codec->type)));
  }
  reduce->contributions[member] = values;
  const bool all_present =
      std::ranges::all_of(members, [&](int other) { return present_.contains(other); });
  if (!all_present) reduce->failure = Failure{FailureKind::kLostPeer, "a worker left the run"};
  if (reduce->complete() && reduce->members > 1 && !thread_.joinable()) {
    thread_ = std::thread([this] { form_sums(); });
  }
  changed_.notify_all();
}

Result<void> LocalHub::sum(int group, int member, const Key& key, std::span<float> out,
                           double timeout_s) {
  Lock lock(mutex_);
  const auto found = reduces_.find({group, key});
  if (found == reduces_.end()) throw Error("wait_all_reduce without start_all_reduce");
  const std::shared_ptr<Reduce> reduce = found->second;
  CodedSum coded;
  std::optional<Failure> failure;
  while (!reduce->done() && !failure) {
    if (reduce->has_piece() && abort_reason_.empty()) {
      form_piece(lock, *reduce, coded);
    } else {
      failure = wait(lock, timeout_s, [&] { return reduce->done() || reduce->has_piece(); });
    }
  }
  if (!failure && !abort_reason_.empty()) failure = {FailureKind::kAborted, abort_reason_};
  if (!failure) failure = reduce->failure;
  if (failure) {
    drop_contribution(lock, member, *reduce);
  } else {
    lock.unlock();
    std::ranges::copy(reduce->sum, out.begin());
    lock.lock();
  }
  forget_if_collected({group, key}, member);
  if (failure) return tl::unexpected(*failure);
  return {};
}

void LocalHub::withdraw(int group, int member, const Key& key) {
  Lock lock(mutex_);
  if (const auto found = reduces_.find({group, key}); found != reduces_.end()) {
    const std::shared_ptr<Reduce> reduce = found->second;
    drop_contribution(lock, member, *reduce);
    forget_if_collected({group, key}, member);
  }
  if (const auto found = exchanges_.find({group, key}); found != exchanges_.end()) {
    found->second.collected.insert(member);
    if (everyone_in(group, found->second.collected)) exchanges_.erase(found);
  }
}

void LocalHub::leave(int member) {
  Lock lock(mutex_);
  present_.erase(member);
  for (auto& [operation, exchange] : exchanges_) close_if_complete(operation.group, exchange);
  // Waiting lets others finish and forget sums, so this goes over a copy.
  std::vector<std::shared_ptr<Reduce>> concerned;
  for (const auto& [operation, reduce] : reduces_) {
    const std::vector<int>& members = groups_[static_cast<size_t>(operation.group)];
    if (std::ranges::binary_search(members, member)) concerned.push_back(reduce);
  }
  for (const auto& reduce : concerned) drop_contribution(lock, member, *reduce);
}

void LocalHub::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (abort_reason_.empty()) abort_reason_ = reason.empty() ? "the run was aborted" : reason;
  changed_.notify_all();
}

template <typename Condition>
std::optional<Failure> LocalHub::wait(Lock& lock, double timeout_s, Condition ready) {
  const auto limit = std::chrono::steady_clock::now() +
                     std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                         std::chrono::duration<double>(timeout_s));
  const bool in_time =
      changed_.wait_until(lock, limit, [&] { return !abort_reason_.empty() || ready(); });
  if (!abort_reason_.empty()) return Failure{FailureKind::kAborted, abort_reason_};
  if (in_time) return std::nullopt;
  return Failure{FailureKind::kDeadline,
                 fmt::format("no answer from all workers within {} s", timeout_s)};
}

void LocalHub::close_if_complete(int group, Exchange& exchange) {
  if (exchange.closed) return;
  for (const int member : groups_[static_cast<size_t>(group)]) {
    if (present_.contains(member) && !exchange.arrived.contains(member)) return;
  }
  exchange.closed = true;
  changed_.notify_all();
}

bool LocalHub::everyone_in(int group, const std::set<int>& members) const {
  return std::ranges::all_of(groups_[static_cast<size_t>(group)], [&](int member) {
    return !present_.contains(member) || members.contains(member);
  });
}

void LocalHub::form_piece(Lock& lock, Reduce& reduce, CodedSum& coded) {
  const size_t begin = reduce.taken;
  const size_t count = std::min(kPieceValues, reduce.sum.size() - begin);
  reduce.taken += count;
  ++reduce.reading;
  lock.unlock();
  const std::span<float> piece = std::span(reduce.sum).subspan(begin, count);
  Result<void> formed;
  CodedSum::begin(piece);
  for (const auto& [id, values] : reduce.contributions) {
    formed = coded.add(*reduce.codec, values.subspan(begin, count), piece);
    if (formed) continue;
    formed.error().message =
        fmt::format("the contribution of member {}: {}", id, formed.error().message);
    break;
  }
  if (formed) formed = coded.finish(*reduce.codec, piece);
  lock.lock();
  --reduce.reading;
  reduce.formed += count;
  if (!formed && !reduce.failure) reduce.failure = formed.error();
  if (reduce.done() || reduce.reading == 0) changed_.notify_all();
}

// A sum that lacks a contribution cannot be finished; the member's memory may go once nobody
// reads it.
void LocalHub::drop_contribution(Lock& lock, int member, Reduce& reduce) {
  if (reduce.collected.contains(member)) return;
  if (!reduce.done()) reduce.failure = Failure{FailureKind::kLostPeer, "a worker left the run"};
  changed_.notify_all();
  changed_.wait(lock, [&] { return reduce.reading == 0; });
}

void LocalHub::forget_if_collected(const Operation& operation, int member) {
  const auto found = reduces_.find(operation);
  if (found == reduces_.end()) return;
  found->second->collected.insert(member);
  if (everyone_in(operation.group, found->second->collected)) reduces_.erase(found);
}

// The hub's own thread. Keys ascend with time, so the oldest sum comes first.
void LocalHub::form_sums() {
  CodedSum coded;
  Lock lock(mutex_);
  while (!stop_) {
    const auto found =
        std::ranges::find_if(reduces_, [](const auto& entry) { return entry.second->has_piece(); });
    if (found == reduces_.end() || !abort_reason_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const std::shared_ptr<Reduce> reduce = found->second;
    form_piece(lock, *reduce, coded);
  }
}

}  // namespace thinwire::transport
