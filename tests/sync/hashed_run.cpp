#include "tests/sync/hashed_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/optim/projection.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/registry.h"

namespace thinwire::sync {
namespace {

// Passes everything on, except payloads that are lost or tampered with.
class UnreliableCommunicator final : public transport::Communicator {
 public:
  UnreliableCommunicator(std::unique_ptr<transport::Communicator> communicator,
                         const HashedRunOptions& options)
      : communicator_(std::move(communicator)), options_(options) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  void start_all_gather(const transport::Key& key, Bytes payload,
                        const transport::Contributors& from) override {
    if (options_.tamper) options_.tamper(key.round, rank(), payload);
    communicator_->start_all_gather(key, std::move(payload), from);
  }
  Result<std::vector<transport::Delivery>> wait_all_gather(const transport::Key& key,
                                                           double timeout_s) override {
    auto list = communicator_->wait_all_gather(key, timeout_s);
    if (!list || !options_.missing) return list;
    const std::set<int> missing = options_.missing(key.round);
    std::erase_if(*list, [&](const auto& delivery) { return missing.contains(delivery.member); });
    return list;
  }
  void start_all_reduce(const transport::Key& key, std::span<const float> values,
                        const WireCodec& codec, const transport::Contributors& from) override {
    communicator_->start_all_reduce(key, values, codec, committed(key, from));
  }
  Result<bool> left_out(const transport::Key& key, double) override {
    return options_.missing && options_.missing(key.round).contains(rank());
  }
  Result<void> wait_all_reduce(const transport::Key& key, std::span<float> out,
                               double timeout_s) override {
    return communicator_->wait_all_reduce(key, out, timeout_s);
  }
  void cancel(const transport::Key& key) override { communicator_->cancel(key); }
  std::unique_ptr<transport::Communicator> split(std::span<const int> members) override {
    return communicator_->split(members);
  }
  void leave() override { communicator_->leave(); }
  void abort(const std::string& reason) override { communicator_->abort(reason); }
  transport::TrafficCount traffic() const override { return communicator_->traffic(); }

 private:
  transport::Contributors committed(const transport::Key& key, transport::Contributors from) const {
    if (!options_.missing) return from;
    const std::set<int> missing = options_.missing(key.round);
    std::erase_if(from, [&](int member) { return missing.contains(member); });
    return from;
  }

  std::unique_ptr<transport::Communicator> communicator_;
  const HashedRunOptions& options_;
};

}  // namespace

HashedRun::HashedRun(HashedRunOptions options)
    : options_(std::move(options)),
      recipe_(config::parse_recipe(options_.recipe, "test", {}, method::method_sections())) {
  recipe_.train.threads = options_.threads;
  replicas_ = std::make_unique<Replicas>(
      recipe_, options_.tensors, options_.workers,
      [&](std::unique_ptr<transport::Communicator> communicator) {
        return std::make_unique<UnreliableCommunicator>(std::move(communicator), options_);
      });
  const std::vector<float> scales(options_.tensors.size(), options_.param_scale);
  for (int worker = 0; worker < options_.workers; ++worker) {
    fill(63, 0, scales, replicas_->params(worker));
  }
}

Result<void> HashedRun::step(float lr) {
  const uint64_t number = done_++;
  const auto change = options_.weights_from.find(number);
  if (change != options_.weights_from.end()) options_.weights = change->second;
  const auto reports = replicas_->step(
      number, lr,
      [&](int worker, tensor::Arena& gradients) {
        if (recipe_.optim.gradients == config::GradientCoordinates::kProjected) {
          return fill_projected(number, worker, gradients);
        }
        fill(number, static_cast<uint64_t>(worker), options_.gradient_scales, gradients);
        if (options_.pull == 0) return;
        const std::span<const float> weights = replicas_->params(worker).all();
        for (size_t i = 0; i < weights.size(); ++i)
          gradients.all()[i] += options_.pull * weights[i];
      },
      options_.weights);
  norms_.clear();
  for (const auto& report : reports) {
    if (!report) return tl::unexpected(report.error());
    norms_.push_back(report->gradient_norm);
    synchronised_ = report->synchronised;
  }
  return {};
}

std::span<const float> HashedRun::state(int worker, const std::string& name) {
  for (const StateTensor& tensor : replicas_->strategy(worker).state()) {
    if (tensor.name == name) return tensor.values;
  }
  ADD_FAILURE() << "no state named " << name;
  return {};
}

void HashedRun::fill_projected(uint64_t step, int worker, tensor::Arena& out) {
  tensor::Arena whole(replicas_->layout());
  fill(step, static_cast<uint64_t>(worker), options_.gradient_scales, whole);
  Round round;
  round.number = step;
  for (size_t t = 0; t < out.layout().size(); ++t) {
    const TensorSpec& spec = whole.layout().specs()[t];
    const int64_t columns = spec.shape.back();
    const auto bases = replicas_->strategy(worker).gradient_form(round, t).bases;
    const std::vector<float> values =
        optim::projection(bases, whole.tensor(t), spec.count() / columns, columns);
    std::ranges::copy(values, out.tensor(t).begin());
  }
}

void HashedRun::fill(uint64_t step, uint64_t worker, const std::vector<float>& scales,
                     tensor::Arena& out) const {
  for (size_t tensor = 0; tensor < scales.size(); ++tensor) {
    uint64_t counter = ((step * 64 + worker) * 64 + tensor) << 32;
    for (float& value : out.tensor(tensor)) {
      const auto hash = static_cast<int64_t>(mix_bits(options_.seed ^ counter++) >> 40);
      value = static_cast<float>(hash - (1 << 23)) * 0x1.0p-23f * scales[tensor];
    }
  }
}

}  // namespace thinwire::sync
