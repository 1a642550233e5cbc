// Passes everything on, for tests that look at or change some of it.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/transport/communicator.h"

namespace thinwire::transport {

class PassingCommunicator : public Communicator {
 public:
  using Communicator::start_all_gather;
  using Communicator::start_all_reduce;

  explicit PassingCommunicator(std::unique_ptr<Communicator> to) : to_(std::move(to)) {}

  int rank() const override { return to_->rank(); }
  int size() const override { return to_->size(); }
  void start_all_gather(const Key& key, Bytes payload, const Contributors& from) override {
    to_->start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<Delivery>> wait_all_gather(const Key& key, double timeout_s) override {
    return to_->wait_all_gather(key, timeout_s);
  }
  void start_all_reduce(const Key& key, std::span<const float> values, const WireCodec& codec,
                        const Contributors& from) override {
    to_->start_all_reduce(key, values, codec, from);
  }
  Result<bool> left_out(const Key& key, double timeout_s) override {
    return to_->left_out(key, timeout_s);
  }
  Result<std::optional<Contributors>> counted(const Key& key, double timeout_s) override {
    return to_->counted(key, timeout_s);
  }
  Result<void> wait_all_reduce(const Key& key, std::span<float> out, double timeout_s) override {
    return to_->wait_all_reduce(key, out, timeout_s);
  }
  void cancel(const Key& key) override { to_->cancel(key); }
  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    return to_->split(members);
  }
  void leave() override { to_->leave(); }
  void abort(const std::string& reason) override { to_->abort(reason); }
  TrafficCount traffic() const override { return to_->traffic(); }

 protected:
  // Whether this member is among the contributors.
  bool contributes(const Contributors& from) const {
    return from.empty() || std::ranges::find(from, rank()) != from.end();
  }

 private:
  std::unique_ptr<Communicator> to_;
};

}  // namespace thinwire::transport
