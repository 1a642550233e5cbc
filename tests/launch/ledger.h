// A run's committed operations in memory, as a joiner reads them: who was there writes each as it
// waits for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "tests/transport/passing_communicator.h"

namespace thinwire::launch {

// Thread-safe.
class Ledger {
 public:
  struct Entry {
    std::vector<transport::Delivery> payloads;  // of an all_gather
    std::vector<float> sum;                     // of an all_reduce
  };

  // The first entry of an operation counts.
  void add(const transport::Key& key, Entry entry) {
    const std::lock_guard lock(mutex_);
    entries_.emplace(key, std::move(entry));
    changed_.notify_all();
  }
  Result<Entry> wait(const transport::Key& key, double timeout_s) {
    std::unique_lock lock(mutex_);
    const bool there = changed_.wait_for(lock, std::chrono::duration<double>(timeout_s),
                                         [&] { return entries_.contains(key); });
    if (there) return entries_.at(key);
    return fail(FailureKind::kDeadline, "the ledger has no such operation");
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<transport::Key, Entry> entries_;
};

// A communicator for a member whose commits are the run's.
class WritingCommunicator final : public transport::PassingCommunicator {
 public:
  WritingCommunicator(std::unique_ptr<Communicator> to, Ledger& ledger)
      : transport::PassingCommunicator(std::move(to)), ledger_(ledger) {}

  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    auto list = transport::PassingCommunicator::wait_all_gather(key, timeout_s);
    if (list) ledger_.add(key, {*list, {}});
    return list;
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    auto done = transport::PassingCommunicator::wait_all_reduce(key, out, timeout_s);
    if (done) ledger_.add(key, {{}, {out.begin(), out.end()}});
    return done;
  }

 private:
  Ledger& ledger_;
};

// The communicator of a joiner: what it contributes to is live, what it follows comes from the
// ledger.
class JoiningCommunicator final : public transport::PassingCommunicator {
 public:
  JoiningCommunicator(std::unique_ptr<Communicator> live, Ledger& ledger)
      : transport::PassingCommunicator(std::move(live)), ledger_(ledger) {}

  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    if (!contributes(from)) return;
    live_.insert(key);
    transport::PassingCommunicator::start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    if (live_.contains(key)) return transport::PassingCommunicator::wait_all_gather(key, timeout_s);
    auto entry = ledger_.wait(key, timeout_s);
    if (!entry) return tl::unexpected(entry.error());
    return entry->payloads;
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    if (!contributes(from)) return;
    live_.insert(key);
    transport::PassingCommunicator::start_all_reduce(key, values, codec, from);
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    if (live_.contains(key))
      return transport::PassingCommunicator::wait_all_reduce(key, out, timeout_s);
    const auto entry = ledger_.wait(key, timeout_s);
    if (!entry) return tl::unexpected(entry.error());
    std::ranges::copy(entry->sum, out.begin());
    return {};
  }
  void cancel(const transport::Key& key) override {
    if (live_.contains(key)) transport::PassingCommunicator::cancel(key);
  }

 private:
  Ledger& ledger_;
  std::set<transport::Key> live_;
};

}  // namespace thinwire::launch
