#include "thinwire/transport/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "thinwire/base/digest.h"

namespace thinwire::transport {
namespace {

Failure left_the_run() { return {FailureKind::kLostPeer, "a worker left the run"}; }

}  // namespace

Rendezvous::Rendezvous(std::vector<int> members, std::vector<int> here, Send send)
    : members_(std::move(members)),
      here_(std::move(here)),
      send_(std::move(send)),
      present_(members_.begin(), members_.end()) {}

uint64_t Rendezvous::group(const std::vector<int>& members) {
  const uint64_t id = hash_bytes(as_bytes(std::span(members)));
  groups_.emplace(id, members);
  return id;
}

void Rendezvous::offer(const Operation& operation, int member, Bytes payload,
                       const std::vector<int>& from) {
  Gather& gather = gathers_[operation];
  gather.from = from.empty() ? members(operation.group) : from;
  if (!std::ranges::binary_search(gather.from, member)) return;
  send_to_group(FrameKind::kPayload, operation, member, payload);
  gather.offers[member] = std::make_shared<const Bytes>(std::move(payload));
}

bool Rendezvous::offered(const Operation& operation) const {
  const auto found = gathers_.find(operation);
  return found != gathers_.end() && !found->second.from.empty();
}

bool Rendezvous::closed(const Operation& operation) const { return awaited(operation).empty(); }

std::vector<int> Rendezvous::awaited(const Operation& operation) const {
  const Gather& gather = gathers_.at(operation);
  std::vector<int> members;
  std::ranges::copy_if(gather.from, std::back_inserter(members), [&](int member) {
    return !gather.offers.contains(member) && present(member);
  });
  return members;
}

std::vector<Delivery> Rendezvous::committed(const Operation& operation) const {
  const Gather& gather = gathers_.at(operation);
  std::vector<Delivery> list;
  for (const int member : gather.from) {
    const auto offer = gather.offers.find(member);
    if (offer != gather.offers.end()) list.push_back({member, offer->second});
  }
  return list;
}

bool Rendezvous::finish_gather(const Operation& operation, int member) {
  const auto found = gathers_.find(operation);
  if (found == gathers_.end()) return false;
  found->second.finished.insert(member);
  if (!all_finished(operation.group, found->second.finished)) return false;
  gathers_.erase(found);
  return true;
}

void Rendezvous::contribute(const Operation& operation, int member, std::span<const float> values,
                            const WireCodec& codec, const std::vector<int>& from) {
  ChunkedSum& sum = *reduces_[operation].sum;
  const std::vector<int>& group = members(operation.group);
  const std::vector<int>& owners = from.empty() ? group : from;
  if (!sum.opened()) {
    const bool alone = here_in(group).size() == group.size();
    sum.open(owners, here_in(owners), codec, values.size(), alone);
  }
  if (sum.has(member)) sum.start(member, values, codec);
  fail_if_lost(operation, sum);
}

std::shared_ptr<ChunkedSum> Rendezvous::sum(const Operation& operation) const {
  const auto found = reduces_.find(operation);
  if (found == reduces_.end() || !found->second.sum->opened()) return nullptr;
  return found->second.sum;
}

bool Rendezvous::finish_sum(const Operation& operation, int member) {
  const auto found = reduces_.find(operation);
  if (found == reduces_.end()) return false;
  found->second.finished.insert(member);
  if (!all_finished(operation.group, found->second.finished)) return false;
  reduces_.erase(found);
  return true;
}

void Rendezvous::withdraw(const Operation& operation, int member) {
  const std::shared_ptr<ChunkedSum> own = sum(operation);
  if (own == nullptr || reduces_.at(operation).finished.contains(member)) return;
  if (!own->has(member)) return;
  if (!own->formed(member)) send_to_group(FrameKind::kWithdrawal, operation, member, {});
  if (!own->done()) own->fail(left_the_run());
}

std::vector<std::shared_ptr<ChunkedSum>> Rendezvous::sums_of(int member) const {
  std::vector<std::shared_ptr<ChunkedSum>> all;
  for (const auto& [operation, reduce] : reduces_) {
    if (!reduce.sum->opened() || reduce.finished.contains(member)) continue;
    if (!std::ranges::binary_search(members(operation.group), member)) continue;
    all.push_back(reduce.sum);
  }
  return all;
}

bool Rendezvous::has_work() const {
  const auto has_task = [](const auto& entry) { return entry.second.sum->has_task(); };
  return !aborted_ && std::ranges::any_of(reduces_, has_task);
}

std::optional<Rendezvous::Work> Rendezvous::take_work() {
  if (aborted_) return std::nullopt;
  for (const auto& [operation, reduce] : reduces_) {
    if (auto work = take_work(operation, reduce.sum)) return work;
  }
  return std::nullopt;
}

std::optional<Rendezvous::Work> Rendezvous::take_work(const Operation& operation,
                                                      std::shared_ptr<ChunkedSum> sum) {
  auto task = sum->take();
  if (!task) return std::nullopt;
  return Work{operation, std::move(sum), *std::move(task)};
}

void Rendezvous::finish_work(const Work& work, const Result<void>& result) {
  const bool was_failed = work.sum->failure().has_value();
  const bool whole_chunk = work.sum->finish(work.task, result);
  if (was_failed) return;
  const SumTask& task = work.task;
  if (task.kind == SumTask::Kind::kCode) {
    const int from = task.parts.front().member;
    send_({FrameKind::kContribution, from, task.owner, work.operation}, task.contribution);
  } else if (whole_chunk) {
    send_to_group(FrameKind::kSum, work.operation, task.owner, work.sum->coded(task.owner));
  } else if (!result && task.kind == SumTask::Kind::kForm) {
    send_to_group(FrameKind::kRefusal, work.operation, task.owner,
                  as_bytes(result.error().message));
  }
}

void Rendezvous::leave(int member) {
  if (!present_.contains(member)) return;
  member_left(member);
  send_to_all(FrameKind::kLeave, member, {});
}

void Rendezvous::abort(const std::string& reason) {
  if (aborted_) return;
  aborted_ = {FailureKind::kAborted, reason.empty() ? "the run was aborted" : reason};
  send_to_all(FrameKind::kAbort, here_.front(), as_bytes(aborted_->message));
}

Result<void> Rendezvous::deliver(Frame frame) {
  const auto& [kind, from, to, operation] = frame.head;
  switch (kind) {
    case FrameKind::kPayload: {
      auto payload = std::make_shared<const Bytes>(std::move(frame.body));
      if (gathers_[operation].offers.emplace(from, std::move(payload)).second) return {};
      return fail(FailureKind::kCorruptPayload,
                  fmt::format("its payload of round {} has already arrived", operation.key.round));
    }
    case FrameKind::kLeave:
      member_left(from);
      return {};
    case FrameKind::kAbort:
      if (aborted_) return {};
      aborted_ = {FailureKind::kAborted, {frame.body.begin(), frame.body.end()}};
      return {};
    default:
      return deliver_to_sum(std::move(frame));
  }
}

Result<void> Rendezvous::deliver_to_sum(Frame frame) {
  const auto& [kind, from, to, operation] = frame.head;
  ChunkedSum& sum = *reduces_[operation].sum;
  if (kind == FrameKind::kContribution || kind == FrameKind::kSum) {
    const bool first = kind == FrameKind::kSum
                           ? sum.take_sum(from, std::move(frame.body))
                           : sum.take_contribution(to, from, std::move(frame.body));
    if (first) return {};
    return fail(
        FailureKind::kCorruptPayload,
        fmt::format("its part of the sum of round {} has already arrived", operation.key.round));
  }
  if (sum.done()) return {};
  if (kind == FrameKind::kWithdrawal) {
    sum.fail(left_the_run());
  } else {
    sum.fail({FailureKind::kCorruptPayload, {frame.body.begin(), frame.body.end()}});
  }
  return {};
}

std::vector<int> Rendezvous::here_in(std::span<const int> group) const {
  std::vector<int> both;
  std::ranges::set_intersection(group, here_, std::back_inserter(both));
  return both;
}

bool Rendezvous::all_finished(uint64_t group, const std::set<int>& finished) const {
  return std::ranges::all_of(here_in(members(group)), [&](int member) {
    return !present(member) || finished.contains(member);
  });
}

void Rendezvous::fail_if_lost(const Operation& operation, ChunkedSum& sum) const {
  const bool lost = std::ranges::any_of(
      members(operation.group), [&](int member) { return !present(member) && sum.needs(member); });
  if (lost) sum.fail(left_the_run());
}

void Rendezvous::member_left(int member) {
  present_.erase(member);
  for (const auto& [operation, reduce] : reduces_) {
    if (reduce.sum->opened()) fail_if_lost(operation, *reduce.sum);
  }
}

void Rendezvous::send_to_group(FrameKind kind, const Operation& operation, int from,
                               std::span<const uint8_t> body) {
  send_to(members(operation.group), {kind, from, from, operation}, body);
}

void Rendezvous::send_to_all(FrameKind kind, int from, std::span<const uint8_t> body) {
  send_to(members_, {kind, from, from, {}}, body);
}

// From the next one on, so that members that send together do not all begin with the same receiver.
void Rendezvous::send_to(std::span<const int> members, const FrameHead& head,
                         std::span<const uint8_t> body) {
  const auto own =
      static_cast<size_t>(std::ranges::lower_bound(members, head.from) - members.begin());
  for (size_t i = 1; i < members.size(); ++i) {
    const int to = members[(own + i) % members.size()];
    if (std::ranges::binary_search(here_, to)) continue;
    FrameHead one = head;
    one.to = to;
    send_(one, body);
  }
}

}  // namespace thinwire::transport
