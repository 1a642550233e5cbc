#include <utility>

#include "thinwire/transport/simulated_network.h"

namespace thinwire::transport {
namespace {

class SimulatedCommunicator final : public Communicator {
 public:
  // `members`: ids in the run by ids in this group.
  SimulatedCommunicator(std::unique_ptr<Communicator> communicator,
                        std::shared_ptr<SimulatedNetwork> network, std::vector<int> members)
      : communicator_(std::move(communicator)),
        network_(std::move(network)),
        members_(std::move(members)) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }

  // The network hears of an operation first, so that all have started it there when a wait ends.
  void start_all_gather(const Key& key, Bytes payload) override {
    network_->start_all_gather(in_run(), {false, members_, key}, payload.size());
    communicator_->start_all_gather(key, std::move(payload));
  }

  Result<std::vector<Delivery>> wait_all_gather(const Key& key, double timeout_s) override {
    auto list = communicator_->wait_all_gather(key, timeout_s);
    if (!list) return list;
    const auto ended = network_->finish(in_run(), {false, members_, key}, timeout_s);
    if (!ended) return tl::unexpected(ended.error());
    return list;
  }

  void start_all_reduce(const Key& key, std::span<const float> values,
                        const WireCodec& codec) override {
    network_->start_all_reduce(in_run(), {true, members_, key}, codec.type, values.size());
    communicator_->start_all_reduce(key, values, codec);
  }

  Result<void> wait_all_reduce(const Key& key, std::span<float> out, double timeout_s) override {
    auto done = communicator_->wait_all_reduce(key, out, timeout_s);
    if (!done) return done;
    return network_->finish(in_run(), {true, members_, key}, timeout_s);
  }

  void cancel(const Key& key) override {
    network_->cancel(in_run(), {false, members_, key});
    network_->cancel(in_run(), {true, members_, key});
    communicator_->cancel(key);
  }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    auto inner = communicator_->split(members);
    std::vector<int> in_the_run;
    for (const int member : members) in_the_run.push_back(members_[static_cast<size_t>(member)]);
    return std::make_unique<SimulatedCommunicator>(std::move(inner), network_,
                                                   std::move(in_the_run));
  }

  void leave() override {
    network_->leave(in_run());
    communicator_->leave();
  }
  void abort(const std::string& reason) override {
    communicator_->abort(reason);
    network_->abort(reason);
  }
  TrafficCount traffic() const override { return communicator_->traffic(); }

 private:
  int in_run() const { return members_[static_cast<size_t>(rank())]; }

  std::unique_ptr<Communicator> communicator_;
  std::shared_ptr<SimulatedNetwork> network_;
  std::vector<int> members_;
};

}  // namespace

std::unique_ptr<Communicator> make_simulated_communicator(
    std::unique_ptr<Communicator> communicator, std::shared_ptr<SimulatedNetwork> network) {
  std::vector<int> all;
  for (int member = 0; member < communicator->size(); ++member) all.push_back(member);
  return std::make_unique<SimulatedCommunicator>(std::move(communicator), std::move(network),
                                                 std::move(all));
}

}  // namespace thinwire::transport
