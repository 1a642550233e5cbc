#include <algorithm>
#include <atomic>
#include <utility>

#include "thinwire/transport/hub.h"

namespace thinwire::transport {
namespace {

struct TrafficCounter {
  std::atomic<uint64_t> sent = 0;
  std::atomic<uint64_t> received = 0;
};

// One member's view of the run, or of a group of it.
class HubCommunicator final : public Communicator {
 public:
  // `members`: ids in the run by rank in this group; what this counts, `outer` counts as well.
  HubCommunicator(std::shared_ptr<Hub> hub, std::vector<int> members, int self,
                  std::vector<std::shared_ptr<TrafficCounter>> outer)
      : hub_(std::move(hub)),
        group_(hub_->group(members)),
        members_(std::move(members)),
        self_(self),
        leaves_(outer.empty()),
        counters_(std::move(outer)) {
    counters_.push_back(std::make_shared<TrafficCounter>());
  }
  ~HubCommunicator() override {
    if (leaves_) hub_->leave(in_run(self_));
  }
  HubCommunicator(const HubCommunicator&) = delete;
  HubCommunicator& operator=(const HubCommunicator&) = delete;

  int rank() const override { return self_; }
  int size() const override { return static_cast<int>(members_.size()); }

  void start_all_gather(const Key& key, Bytes payload, const Contributors& from) override {
    if (size() > 1 && contributes(from)) count_bytes(payload.size(), 0);
    hub_->offer(group_, in_run(self_), key, std::move(payload), in_run(from));
  }

  Result<std::vector<Delivery>> wait_all_gather(const Key& key, double timeout_s) override {
    auto list = hub_->collect(group_, in_run(self_), key, timeout_s);
    if (!list) return list;
    for (Delivery& delivery : *list) {
      delivery.member = static_cast<int>(lower_bound(members_, delivery.member));
      if (delivery.member != self_) count_bytes(0, delivery.payload->size());
    }
    return list;
  }

  void start_all_reduce(const Key& key, std::span<const float> values, const WireCodec& codec,
                        const Contributors& from) override {
    hub_->contribute(group_, in_run(self_), key, values, codec, in_run(from));
    const WireType sum = codec.of_sum().type;
    if (!contributes(from)) return count_bytes(0, wire_bytes(sum, values.size()));
    const auto owners = static_cast<int>(from.empty() ? members_.size() : from.size());
    const int place = from.empty() ? self_ : static_cast<int>(lower_bound(from, self_));
    const AllReduceBytes moved = all_reduce_bytes(codec.formats(), values.size(), owners, place);
    const WireChunk own = wire_chunk(codec.type, values.size(), owners, place);
    const auto followers = static_cast<uint64_t>(size() - owners);
    count_bytes(moved.sent + followers * wire_bytes(sum, own.end - own.begin), moved.received);
  }

  Result<void> wait_all_reduce(const Key& key, std::span<float> out, double timeout_s) override {
    return hub_->sum(group_, in_run(self_), key, out, timeout_s);
  }

  void cancel(const Key& key) override { hub_->withdraw(group_, in_run(self_), key); }

  std::unique_ptr<Communicator> split(std::span<const int> members) override {
    check_split(members, *this);
    std::vector<int> in_the_run;
    for (const int member : members) in_the_run.push_back(in_run(member));
    const auto self = static_cast<int>(lower_bound(members, self_));
    return std::make_unique<HubCommunicator>(hub_, std::move(in_the_run), self, counters_);
  }

  void leave() override { hub_->leave(in_run(self_)); }
  void abort(const std::string& reason) override { hub_->abort(reason); }
  TrafficCount traffic() const override {
    return {counters_.back()->sent, counters_.back()->received};
  }

 private:
  int in_run(int member) const { return members_[static_cast<size_t>(member)]; }
  Contributors in_run(const Contributors& from) const {
    Contributors ids;
    for (const int member : from) ids.push_back(in_run(member));
    return ids;
  }

  // The place of a member in an ascending list.
  static ptrdiff_t lower_bound(std::span<const int> list, int member) {
    return std::ranges::lower_bound(list, member) - list.begin();
  }
  bool contributes(const Contributors& from) const {
    return from.empty() || std::ranges::binary_search(from, self_);
  }

  void count_bytes(uint64_t sent, uint64_t received) {
    for (const auto& counter : counters_) {
      counter->sent += sent;
      counter->received += received;
    }
  }

  std::shared_ptr<Hub> hub_;
  uint64_t group_;
  std::vector<int> members_;
  int self_;
  bool leaves_;
  std::vector<std::shared_ptr<TrafficCounter>> counters_;  // the last one is this group's own
};

}  // namespace

std::unique_ptr<Communicator> make_hub_communicator(std::shared_ptr<Hub> hub, int members,
                                                    int self) {
  return std::make_unique<HubCommunicator>(std::move(hub), members_below(members), self,
                                           std::vector<std::shared_ptr<TrafficCounter>>{});
}

}  // namespace thinwire::transport
