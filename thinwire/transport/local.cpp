#include "thinwire/transport/local.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "thinwire/base/bf16.h"
#include "thinwire/base/digest.h"
#include "thinwire/base/simd.h"

namespace thinwire::transport {
namespace {

struct Exchange {
  std::map<int, Delivery> arrived;
  bool closed = false;  // fixed for good: everyone gets exactly this list
  std::set<int> collected;
};

struct Reduce {
  std::map<int, std::span<const float>> contributions;
  std::vector<float> sum;
  WireType wire = WireType::kF32;
  int reading = 0;  // members summing right now; their sources must stay where they are
  int chunks_done = 0;
  bool lost = false;
  std::set<int> collected;
};

// Wire rounding of contributions and of the sum; the loops are elementwise, so any width gives the
// same bits.
THINWIRE_CLONES void add_contribution(std::span<const float> in, std::span<float> sum, bool bf16) {
  const float* __restrict from = in.data();
  float* __restrict to = sum.data();
  const size_t count = sum.size();
  if (!bf16) {
    for (size_t i = 0; i < count; ++i) to[i] += from[i];
    return;
  }
  for (size_t i = 0; i < count; ++i) to[i] += round_to_bf16(from[i]);
}

THINWIRE_CLONES void round_sum(std::span<float> sum) {
  for (float& value : sum) value = round_to_bf16(value);
}

}  // namespace

class LocalHub {
 public:
  explicit LocalHub(int members) : members_(members) {
    for (int member = 0; member < members; ++member) present_.insert(member);
  }

  int members() const { return members_; }

  void offer(int member, const Key& key, Bytes payload) {
    const uint64_t hash = hash_bytes(payload);
    auto shared = std::make_shared<const Bytes>(std::move(payload));
    const std::lock_guard lock(mutex_);
    Exchange& exchange = exchanges_[key];
    exchange.arrived[member] = {member, hash, std::move(shared)};
    close_if_complete(exchange);
  }

  Result<std::vector<Delivery>> collect(int member, const Key& key, double timeout_s) {
    std::unique_lock lock(mutex_);
    const auto found = exchanges_.find(key);
    if (found == exchanges_.end()) throw Error("wait_exchange without start_exchange");
    Exchange& exchange = found->second;
    if (auto failure = wait(lock, timeout_s, [&] { return exchange.closed; })) {
      return tl::unexpected(*failure);
    }
    std::vector<Delivery> list;
    for (const auto& [id, delivery] : exchange.arrived) list.push_back(delivery);
    exchange.collected.insert(member);
    if (everyone_in(exchange.collected)) exchanges_.erase(found);
    return list;
  }

  void contribute(int member, const Key& key, std::span<const float> values, WireType wire) {
    const std::lock_guard lock(mutex_);
    Reduce& reduce = reduces_[key];
    reduce.contributions[member] = values;
    reduce.wire = wire;
    if (static_cast<int>(present_.size()) < members_) reduce.lost = true;
    if (static_cast<int>(reduce.contributions.size()) == members_) reduce.sum.resize(values.size());
    changed_.notify_all();
  }

  Result<void> sum(int member, const Key& key, std::span<float> out, double timeout_s) {
    std::unique_lock lock(mutex_);
    const auto found = reduces_.find(key);
    if (found == reduces_.end()) throw Error("wait_reduce without start_reduce");
    Reduce& reduce = found->second;
    const auto all_here = [&] { return static_cast<int>(reduce.contributions.size()) == members_; };
    if (auto failure = wait(lock, timeout_s, [&] { return reduce.lost || all_here(); })) {
      drop_contribution(lock, member, reduce);
      return tl::unexpected(*failure);
    }
    if (!reduce.lost) {
      ++reduce.reading;
      lock.unlock();
      sum_own_chunk(member, reduce);
      lock.lock();
      --reduce.reading;
      ++reduce.chunks_done;
      changed_.notify_all();
    }
    const auto done = [&] { return reduce.lost || reduce.chunks_done == members_; };
    if (auto failure = wait(lock, timeout_s, done)) {
      drop_contribution(lock, member, reduce);
      return tl::unexpected(*failure);
    }
    if (reduce.chunks_done < members_) return fail(FailureKind::kLostPeer, "a worker left the run");
    lock.unlock();
    std::copy(reduce.sum.begin(), reduce.sum.end(), out.begin());
    lock.lock();
    reduce.collected.insert(member);
    if (everyone_in(reduce.collected)) reduces_.erase(found);
    return {};
  }

  void withdraw(int member, const Key& key) {
    std::unique_lock lock(mutex_);
    if (const auto found = reduces_.find(key); found != reduces_.end()) {
      drop_contribution(lock, member, found->second);
    }
    if (const auto found = exchanges_.find(key); found != exchanges_.end()) {
      found->second.collected.insert(member);
    }
  }

  void leave(int member) {
    std::unique_lock lock(mutex_);
    present_.erase(member);
    for (auto& [key, exchange] : exchanges_) close_if_complete(exchange);
    // Waiting lets others finish and erase sums, so each is looked up anew.
    std::vector<Key> keys;
    for (const auto& [key, reduce] : reduces_) keys.push_back(key);
    for (const Key& key : keys) {
      if (const auto found = reduces_.find(key); found != reduces_.end()) {
        drop_contribution(lock, member, found->second);
      }
    }
    changed_.notify_all();
  }

  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (abort_reason_.empty()) abort_reason_ = reason.empty() ? "the run was aborted" : reason;
    changed_.notify_all();
  }

 private:
  template <typename Condition>
  std::optional<Failure> wait(std::unique_lock<std::mutex>& lock, double timeout_s,
                              Condition ready) {
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

  void close_if_complete(Exchange& exchange) {
    if (exchange.closed) return;
    for (const int member : present_) {
      if (!exchange.arrived.contains(member)) return;
    }
    exchange.closed = true;
    changed_.notify_all();
  }

  bool everyone_in(const std::set<int>& members) const {
    return std::includes(members.begin(), members.end(), present_.begin(), present_.end());
  }

  // A sum that lacks a contribution cannot be finished; the member's memory may go once nobody
  // reads it.
  void drop_contribution(std::unique_lock<std::mutex>& lock, int member, Reduce& reduce) {
    if (reduce.collected.contains(member)) return;
    if (reduce.chunks_done < members_) reduce.lost = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return reduce.reading == 0; });
  }

  void sum_own_chunk(int member, Reduce& reduce) {
    const size_t count = reduce.sum.size();
    const size_t begin = count * static_cast<size_t>(member) / static_cast<size_t>(members_);
    const size_t end = count * static_cast<size_t>(member + 1) / static_cast<size_t>(members_);
    const std::span<float> chunk(reduce.sum.data() + begin, end - begin);
    const bool bf16 = reduce.wire == WireType::kBf16;
    std::fill(chunk.begin(), chunk.end(), 0.0f);
    for (const auto& [id, values] : reduce.contributions) {
      add_contribution(values.subspan(begin, end - begin), chunk, bf16);
    }
    if (bf16) round_sum(chunk);
  }

  const int members_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<int> present_;
  std::map<Key, Exchange> exchanges_;
  std::map<Key, Reduce> reduces_;
  std::string abort_reason_;
};

namespace {

class LocalPeers final : public Peers {
 public:
  LocalPeers(std::shared_ptr<LocalHub> hub, int self) : hub_(std::move(hub)), self_(self) {}
  ~LocalPeers() override { hub_->leave(self_); }
  LocalPeers(const LocalPeers&) = delete;
  LocalPeers& operator=(const LocalPeers&) = delete;

  int self() const override { return self_; }
  int count() const override { return hub_->members(); }

  void start_exchange(const Key& key, Bytes payload) override {
    if (count() > 1) sent_ += payload.size();
    hub_->offer(self_, key, std::move(payload));
  }

  Result<std::vector<Delivery>> wait_exchange(const Key& key, double timeout_s) override {
    auto list = hub_->collect(self_, key, timeout_s);
    if (!list) return list;
    for (const Delivery& delivery : *list) {
      if (delivery.member != self_) received_ += delivery.payload->size();
    }
    return list;
  }

  void start_reduce(const Key& key, std::span<const float> values, WireType wire) override {
    hub_->contribute(self_, key, values, wire);
    const auto members = static_cast<uint64_t>(count());
    const auto member = static_cast<uint64_t>(self_);
    const uint64_t own = values.size() * (member + 1) / members - values.size() * member / members;
    const uint64_t width = wire == WireType::kBf16 ? sizeof(Bf16) : sizeof(float);
    // Contributions to the other owners and own sums to all others; the same amount comes back.
    const uint64_t moved = (values.size() - own + own * (members - 1)) * width;
    sent_ += moved;
    received_ += moved;
  }

  Result<void> wait_reduce(const Key& key, std::span<float> out, double timeout_s) override {
    return hub_->sum(self_, key, out, timeout_s);
  }

  void cancel(const Key& key) override { hub_->withdraw(self_, key); }
  void leave() override { hub_->leave(self_); }
  void abort(const std::string& reason) override { hub_->abort(reason); }
  TrafficCount traffic() const override { return {sent_, received_}; }

 private:
  std::shared_ptr<LocalHub> hub_;
  int self_;
  std::atomic<uint64_t> sent_ = 0;
  std::atomic<uint64_t> received_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Peers>> make_local_peers(int members) {
  if (members < 1) throw Error(fmt::format("a run needs at least 1 worker, got {}", members));
  const auto hub = std::make_shared<LocalHub>(members);
  std::vector<std::unique_ptr<Peers>> peers;
  for (int member = 0; member < members; ++member) {
    peers.push_back(std::make_unique<LocalPeers>(hub, member));
  }
  return peers;
}

}  // namespace thinwire::transport
