#include "tests/sync/distro_cluster.h"

#include <algorithm>
#include <exception>
#include <thread>

#include "thinwire/base/rng.h"
#include "thinwire/method/registry.h"
#include "thinwire/transport/local.h"

namespace thinwire::sync {
namespace {

// Passes everything on to the local transport but for payloads that are missing or tampered with.
class UnreliablePeers final : public transport::Peers {
 public:
  UnreliablePeers(std::unique_ptr<transport::Peers> peers, const ClusterOptions& options)
      : peers_(std::move(peers)), options_(options) {}

  int self() const override { return peers_->self(); }
  int count() const override { return peers_->count(); }
  void start_exchange(const transport::Key& key, Bytes payload) override {
    options_.tamper(key.round, self(), payload);
    peers_->start_exchange(key, std::move(payload));
  }
  Result<std::vector<transport::Delivery>> wait_exchange(const transport::Key& key,
                                                         double timeout_s) override {
    auto list = peers_->wait_exchange(key, timeout_s);
    if (!list) return list;
    const std::set<int> missing = options_.missing(key.round);
    std::erase_if(*list, [&](const auto& delivery) { return missing.contains(delivery.member); });
    return list;
  }
  void start_reduce(const transport::Key& key, std::span<const float> values,
                    transport::WireType wire) override {
    peers_->start_reduce(key, values, wire);
  }
  Result<void> wait_reduce(const transport::Key& key, std::span<float> out,
                           double timeout_s) override {
    return peers_->wait_reduce(key, out, timeout_s);
  }
  void cancel(const transport::Key& key) override { peers_->cancel(key); }
  void leave() override { peers_->leave(); }
  void abort(const std::string& reason) override { peers_->abort(reason); }
  transport::TrafficCount traffic() const override { return peers_->traffic(); }

 private:
  std::unique_ptr<transport::Peers> peers_;
  const ClusterOptions& options_;
};

}  // namespace

void GradientSource::fill(uint64_t step, uint64_t worker, float scale_of_all,
                          tensor::Arena& out) const {
  for (size_t tensor = 0; tensor < out.layout().size(); ++tensor) {
    const float scale = scale_of_all != 0 ? scale_of_all : scales.at(tensor);
    const uint64_t base = ((step * 64 + worker) * 64 + tensor) << 32;
    uint64_t element = 0;
    for (float& value : out.tensor(tensor)) {
      const auto hash = static_cast<int64_t>(mix_bits(seed ^ (base + element++)) >> 40);
      value = static_cast<float>(hash - (1 << 23)) * 0x1.0p-23f * scale;
    }
  }
}

void GradientSource::fill_gradients(uint64_t step, uint64_t worker, tensor::Arena& out) const {
  fill(step, worker, 0, out);
}

void GradientSource::fill_params(tensor::Arena& out) const { fill(63, 0, param_scale, out); }

struct Cluster::Member {
  Member(const ClusterOptions& options, const tensor::Layout& layout,
         std::unique_ptr<transport::Peers> local)
      : params(layout),
        gradients(layout),
        threads(options.threads),
        slots(nullptr, options.threads),
        peers(std::move(local), options),
        worker{options.recipe, params, gradients, threads, slots, peers},
        strategy(make_strategy(worker)) {
    options.source.fill_params(params);
  }

  tensor::Arena params;
  tensor::Arena gradients;
  ThreadPool threads;
  SlotHold slots;
  UnreliablePeers peers;
  Worker worker;
  std::unique_ptr<Strategy> strategy;
  std::vector<double> norms;
  std::vector<Failure> failures;
  std::exception_ptr error;
};

Cluster::Cluster(ClusterOptions options) : options_(std::move(options)), layout_(options_.tensors) {
  for (auto& peers : transport::make_local_peers(options_.workers)) {
    members_.push_back(std::make_unique<Member>(options_, layout_, std::move(peers)));
  }
}

Cluster::~Cluster() = default;

void Cluster::step(Member& member, uint64_t number) {
  Round round;
  round.run = 77;
  round.number = number;
  round.learning_rate = options_.learning_rates.at(number);
  for (int id = 0; id < options_.workers; ++id) {
    round.roster.push_back({id, {}, 1.0f / static_cast<float>(options_.workers)});
  }
  options_.source.fill_gradients(number, static_cast<uint64_t>(member.peers.self()),
                                 member.gradients);
  member.strategy->before_step(round);
  const auto report = member.strategy->after_step(round);
  if (report) {
    member.norms.push_back(report->gradient_norm);
  } else {
    member.failures.push_back(report.error());
  }
}

void Cluster::run(uint64_t count) {
  std::vector<std::thread> threads;
  for (const auto& member : members_) {
    threads.emplace_back([&, own = member.get()] {
      try {
        for (uint64_t number = done_; number < done_ + count && own->failures.empty(); ++number) {
          step(*own, number);
        }
      } catch (...) {
        own->error = std::current_exception();
        own->peers.abort("a worker failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done_ += count;
  for (const auto& member : members_) {
    if (member->error) std::rethrow_exception(member->error);
  }
}

std::span<const float> Cluster::params(int worker, size_t tensor) const {
  return std::as_const(members_[static_cast<size_t>(worker)]->params).tensor(tensor);
}

std::span<const float> Cluster::all_params(int worker) const {
  return std::as_const(members_[static_cast<size_t>(worker)]->params).all();
}

std::vector<float> Cluster::state(int worker, const std::string& name) const {
  for (const StateTensor& tensor : members_[static_cast<size_t>(worker)]->strategy->state()) {
    if (tensor.name == name) return {tensor.values.begin(), tensor.values.end()};
  }
  return {};
}

const std::vector<double>& Cluster::norms(int worker) const {
  return members_[static_cast<size_t>(worker)]->norms;
}

transport::TrafficCount Cluster::traffic(int worker) const {
  return members_[static_cast<size_t>(worker)]->peers.traffic();
}

std::vector<Failure> Cluster::failures() const {
  std::vector<Failure> failures;
  for (const auto& member : members_) {
    failures.insert(failures.end(), member->failures.begin(), member->failures.end());
  }
  return failures;
}

config::Recipe recipe_of(const std::string& toml) {
  return config::parse_recipe(toml, "test", {}, method::method_sections());
}

}  // namespace thinwire::sync
