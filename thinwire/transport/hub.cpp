#include "thinwire/transport/hub.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "thinwire/base/clock.h"

namespace thinwire::transport {
namespace {

auto seconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

struct Hub::Deadline {
  explicit Deadline(double seconds)
      : timeout_s(seconds), at(std::chrono::steady_clock::now() + seconds_of(seconds)) {}
  double timeout_s;
  std::chrono::steady_clock::time_point at;
};

std::vector<int> members_below(int count) {
  std::vector<int> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Hub::Hub(std::vector<int> members, std::vector<int> here, std::shared_ptr<Carrier> carrier)
    : rendezvous_(std::move(members), std::move(here),
                  [to = carrier.get()](const FrameHead& head, std::span<const uint8_t> body) {
                    to->send(head, body);
                  }),
      carrier_(std::move(carrier)) {}

uint64_t Hub::group(const std::vector<int>& members) {
  const Lock lock(mutex_);
  return rendezvous_.group(members);
}

tl::unexpected<Failure> Hub::unknown_operation(int member, const char* name) const {
  if (rendezvous_.present(member)) throw Error(fmt::format("wait_{0} without start_{0}", name));
  return tl::unexpected(Failure{FailureKind::kLostPeer, "this worker left the run"});
}

void Hub::offer(uint64_t group, int member, const Key& key, Bytes payload,
                const Contributors& from) {
  const Lock lock(mutex_);
  const Operation operation{group, key};
  const bool contributes = from.empty() || std::ranges::binary_search(from, member);
  const uint64_t bytes = contributes ? payload.size() : 0;
  rendezvous_.offer(operation, member, std::move(payload), from);
  carrier_->started(rendezvous_, {.collective = Collective::kAllGather,
                                  .operation = operation,
                                  .member = member,
                                  .payload_bytes = bytes,
                                  .formats = {},
                                  .values = 0,
                                  .from = from});
  changed_.notify_all();
}

Result<std::vector<Delivery>> Hub::collect(uint64_t group, int member, const Key& key,
                                           double timeout_s) {
  const Deadline deadline(timeout_s);
  const Lock lock(mutex_);
  const Operation operation{group, key};
  if (!rendezvous_.offered(operation)) return unknown_operation(member, "all_gather");
  auto failure = wait(
      deadline, [&]() REQUIRES(mutex_) { return rendezvous_.closed(operation); },
      [&]() REQUIRES(mutex_) { return rendezvous_.awaited(operation); });
  if (!failure) {
    failure = wait_for_carrier(deadline, Collective::kAllGather, operation, member);
  }
  if (failure) return tl::unexpected(*failure);
  auto list = rendezvous_.committed(operation);
  carrier_->taken(Collective::kAllGather, operation, member);
  finish_gather(operation, member);
  return list;
}

void Hub::contribute(uint64_t group, int member, const Key& key, std::span<const float> values,
                     const WireCodec& codec, const Contributors& from) {
  const Lock lock(mutex_);
  const Operation operation{group, key};
  rendezvous_.contribute(operation, member, values, codec, from);
  carrier_->started(rendezvous_, {.collective = Collective::kAllReduce,
                                  .operation = operation,
                                  .member = member,
                                  .payload_bytes = 0,
                                  .formats = codec.formats(),
                                  .values = values.size(),
                                  .from = from});
  if (rendezvous_.has_work()) on_work();
  changed_.notify_all();
}

Result<void> Hub::sum(uint64_t group, int member, const Key& key, std::span<float> out,
                      double timeout_s) {
  const Deadline deadline(timeout_s);
  const Lock lock(mutex_);
  const Operation operation{group, key};
  const std::shared_ptr<ChunkedSum> sum = rendezvous_.sum(operation);
  if (sum == nullptr) return unknown_operation(member, "all_reduce");
  auto failure = form(deadline, operation, sum);
  if (!failure) {
    failure = wait_for_carrier(deadline, Collective::kAllReduce, operation, member);
  }
  if (failure) {
    // Without a contributor's values nobody can complete the sum.
    if (!sum->done() && sum->has(member))
      sum->fail({FailureKind::kLostPeer, "a worker left the run"});
    changed_.notify_all();
  }
  wait_for_readers(*sum);
  if (!failure) {
    {
      const Unlock meanwhile(mutex_);
      std::ranges::copy(sum->sum(), out.begin());
    }
    carrier_->taken(Collective::kAllReduce, operation, member);
  }
  finish_sum(operation, member);
  if (failure) return tl::unexpected(*failure);
  return {};
}

void Hub::withdraw(uint64_t group, int member, const Key& key) {
  const Lock lock(mutex_);
  const Operation operation{group, key};
  for (const Collective collective : {Collective::kAllGather, Collective::kAllReduce}) {
    carrier_->cancelled(rendezvous_, collective, operation, member);
  }
  finish_gather(operation, member);
  rendezvous_.withdraw(operation, member);
  changed_.notify_all();
  if (const auto sum = rendezvous_.sum(operation)) {
    wait_for_readers(*sum);
    finish_sum(operation, member);
  }
}

void Hub::leave(int member) {
  const Lock lock(mutex_);
  if (!rendezvous_.present(member)) return;
  // While this waits, others may finish and remove sums, so it iterates over a copy.
  const auto concerned = rendezvous_.sums_of(member);
  rendezvous_.leave(member);
  carrier_->left(rendezvous_);
  changed_.notify_all();
  for (const auto& sum : concerned) wait_for_readers(*sum);
}

void Hub::abort(const std::string& reason) {
  const Lock lock(mutex_);
  rendezvous_.abort(reason);
  changed_.notify_all();
}

bool Hub::work(CodedSum& memory) {
  auto work = rendezvous_.take_work();
  if (!work) return false;
  run(std::move(work), memory);
  return true;
}

void Hub::tell_long_waits(double first_s) {
  const Lock lock(mutex_);
  told_from_s_ = first_s;
}

std::optional<Failure> Hub::wait(const Deadline& deadline, const std::function<bool()>& ready,
                                 const Awaited& awaited) {
  const bool in_time = wait_telling(
      deadline, [&]() REQUIRES(mutex_) { return rendezvous_.aborted() || ready(); }, awaited);
  if (rendezvous_.aborted()) return rendezvous_.aborted();
  if (in_time) return std::nullopt;
  const std::vector<int> others = awaited();
  return Failure{FailureKind::kDeadline, fmt::format("no answer from worker{} {} within {} s",
                                                     others.size() == 1 ? "" : "s",
                                                     fmt::join(others, ", "), deadline.timeout_s)};
}

bool Hub::wait_telling(const Deadline& deadline, const std::function<bool()>& over,
                       const Awaited& awaited) {
  constexpr double kUnusual = 3;  // times the longest wait so far
  const Stopwatch watch;
  double next_s = std::max(told_from_s_, kUnusual * longest_wait_s_);
  while (next_s < deadline.timeout_s) {
    const auto next = deadline.at - seconds_of(deadline.timeout_s - next_s);
    if (changed_.wait_until(mutex_, next, over)) {
      longest_wait_s_ = std::max(longest_wait_s_, watch.seconds());
      return true;
    }
    const std::vector<int> others = awaited();
    {
      const Unlock meanwhile(mutex_);
      on_long_wait(others, next_s);
    }
    next_s *= 2;
  }
  return changed_.wait_until(mutex_, deadline.at, over);
}

// A complete operation may not have arrived yet.
std::optional<Failure> Hub::wait_for_carrier(const Deadline& deadline, Collective collective,
                                             const Operation& operation, int member) {
  auto failure = wait(
      deadline, [&] { return carrier_->arrived(collective, operation); },
      [] { return std::vector<int>(); });
  if (failure && failure->kind == FailureKind::kDeadline) {
    failure->message =
        fmt::format("an earlier operation of member {} was not started by all within {} s", member,
                    deadline.timeout_s);
  }
  return failure;
}

std::optional<Failure> Hub::form(const Deadline& deadline, const Operation& operation,
                                 const std::shared_ptr<ChunkedSum>& sum) {
  CodedSum memory;
  while (!sum->settled()) {
    if (sum->has_task() && !rendezvous_.aborted()) {
      run(Rendezvous::take_work(operation, sum), memory);
      continue;
    }
    const auto more = [&] { return sum->settled() || sum->has_task(); };
    if (auto failure = wait(deadline, more, [&] { return sum->awaited(); })) return failure;
  }
  return rendezvous_.aborted() ? rendezvous_.aborted() : sum->failure();
}

void Hub::run(std::optional<Rendezvous::Work> work, CodedSum& memory) {
  Result<void> result;
  {
    const Unlock meanwhile(mutex_);
    result = work->task.run(memory);
  }
  rendezvous_.finish_work(*work, result);
  if (work->sum->settled() || work->sum->readers() == 0) changed_.notify_all();
}

void Hub::wait_for_readers(const ChunkedSum& sum) {
  while (sum.readers() > 0) changed_.wait(mutex_);
}

void Hub::finish_gather(const Operation& operation, int member) {
  if (!rendezvous_.finish_gather(operation, member)) return;
  carrier_->forgotten(rendezvous_, Collective::kAllGather, operation);
  changed_.notify_all();
}

void Hub::finish_sum(const Operation& operation, int member) {
  if (!rendezvous_.finish_sum(operation, member)) return;
  carrier_->forgotten(rendezvous_, Collective::kAllReduce, operation);
  changed_.notify_all();
}

}  // namespace thinwire::transport
