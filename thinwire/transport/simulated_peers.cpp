#include <utility>

#include "thinwire/transport/simulated_network.h"

namespace thinwire::transport {
namespace {

class SimulatedPeers final : public Peers {
 public:
  // `members`: ids in the run by ids in this group.
  SimulatedPeers(std::unique_ptr<Peers> peers, std::shared_ptr<SimulatedNetwork> network,
                 std::vector<int> members)
      : peers_(std::move(peers)), network_(std::move(network)), members_(std::move(members)) {}

  int self() const override { return peers_->self(); }
  int count() const override { return peers_->count(); }

  // The network hears of an operation first, so that all have started it there when a wait ends.
  void start_exchange(const Key& key, Bytes payload) override {
    network_->start_exchange(in_run(), {false, members_, key}, payload.size());
    peers_->start_exchange(key, std::move(payload));
  }

  Result<std::vector<Delivery>> wait_exchange(const Key& key, double timeout_s) override {
    auto list = peers_->wait_exchange(key, timeout_s);
    if (!list) return list;
    const auto ended = network_->finish(in_run(), {false, members_, key}, timeout_s);
    if (!ended) return tl::unexpected(ended.error());
    return list;
  }

  void start_reduce(const Key& key, std::span<const float> values,
                    const WireCodec& codec) override {
    network_->start_reduce(in_run(), {true, members_, key}, codec.type, values.size());
    peers_->start_reduce(key, values, codec);
  }

  Result<void> wait_reduce(const Key& key, std::span<float> out, double timeout_s) override {
    auto done = peers_->wait_reduce(key, out, timeout_s);
    if (!done) return done;
    return network_->finish(in_run(), {true, members_, key}, timeout_s);
  }

  void cancel(const Key& key) override {
    network_->cancel(in_run(), {false, members_, key});
    network_->cancel(in_run(), {true, members_, key});
    peers_->cancel(key);
  }

  std::unique_ptr<Peers> group(std::span<const int> members) override {
    auto inner = peers_->group(members);
    std::vector<int> in_the_run;
    for (const int member : members) in_the_run.push_back(members_[static_cast<size_t>(member)]);
    return std::make_unique<SimulatedPeers>(std::move(inner), network_, std::move(in_the_run));
  }

  void leave() override {
    network_->leave(in_run());
    peers_->leave();
  }
  void abort(const std::string& reason) override {
    peers_->abort(reason);
    network_->abort(reason);
  }
  TrafficCount traffic() const override { return peers_->traffic(); }

 private:
  int in_run() const { return members_[static_cast<size_t>(self())]; }

  std::unique_ptr<Peers> peers_;
  std::shared_ptr<SimulatedNetwork> network_;
  std::vector<int> members_;
};

}  // namespace

std::unique_ptr<Peers> make_simulated_peers(std::unique_ptr<Peers> peers,
                                            std::shared_ptr<SimulatedNetwork> network) {
  std::vector<int> all;
  for (int member = 0; member < peers->count(); ++member) all.push_back(member);
  return std::make_unique<SimulatedPeers>(std::move(peers), std::move(network), std::move(all));
}

}  // namespace thinwire::transport
