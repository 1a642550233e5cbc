#include "tests/launch/strategy_member.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "thinwire/base/error.h"
#include "thinwire/base/gradient_groups.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/memory/gradient_store.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/sync_spec.h"

namespace thinwire::launch {
namespace {

float noise(uint64_t counter) {
  const auto hash = static_cast<int64_t>(mix_bits(counter) >> 40);
  return static_cast<float>(hash - (1 << 23)) * 0x1.0p-23f;
}

}  // namespace

StrategyMember::StrategyMember(const config::Recipe& recipe, const tensor::Layout& layout,
                               std::unique_ptr<transport::Communicator> communicator)
    : communicator_(std::move(communicator)),
      streams_(recipe.train.update == config::UpdateTime::kLayer),
      params_(layout),
      gradient_layout_(method::gradient_tensors(method::optimizer_options(recipe), layout.specs())),
      gradients_(gradient_layout_),
      strategy_(sync::make_strategy(
          {params_, gradients_, threads_, permits_, *communicator_, method::sync_spec(recipe)})) {
  uint64_t counter = 0;
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    for (float& value : params_.tensor(tensor)) value = noise(++counter) / 16;
  }
}

// Sums in flight read the strategy's memory.
StrategyMember::~StrategyMember() { communicator_->leave(); }

void StrategyMember::begin(const RoundAt& round_at) {
  sync::share_params(params_, *strategy_);
  strategy_->restored(
      {.round_at = [round_at](uint64_t step) { return round_at(static_cast<int64_t>(step)); }});
}

void StrategyMember::begin(const Snapshot& snapshot, int64_t completed, const RoundAt& round_at) {
  std::ranges::copy(snapshot.weights, params_.all().begin());
  sync::share_params(params_, *strategy_);
  for (const StateTensor& part : strategy_->state()) {
    if (part.agreement != Agreement::kConsensus) continue;
    std::ranges::copy(snapshot.consensus.at(part.name), part.values.begin());
  }
  strategy_->restored(
      {.next_step = static_cast<uint64_t>(completed),
       .round_at = [round_at](uint64_t step) { return round_at(static_cast<int64_t>(step)); }});
}

tensor::Arena& StrategyMember::shared() {
  tensor::Arena* const shared = strategy_->shared();
  return shared == nullptr ? params_ : *shared;
}

void StrategyMember::fill_gradients(int64_t step) {
  uint64_t counter = static_cast<uint64_t>(step * 64 + communicator_->rank() + 1) << 32;
  for (size_t tensor = 0; tensor < params_.layout().size(); ++tensor) {
    const std::span<const float> weights = std::as_const(params_).tensor(tensor);
    const std::span<float> gradients = gradients_.tensor(tensor);
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = noise(++counter) + weights[i];
  }
}

void StrategyMember::hand_over(const Round& round) {
  for (const GradientGroup& group : gradient_groups(gradients_.layout().specs())) {
    for (const size_t tensor : group.tensors) {
      if (!streams_) break;
      strategy_->take_gradient(round, tensor, std::as_const(gradients_).tensor(tensor));
    }
    strategy_->gradients_ready(round, group.number);
  }
}

bool StrategyMember::step(const Round& round) {
  strategy_->before_step(round);
  if (!round.member(communicator_->rank()).inactive()) {
    fill_gradients(static_cast<int64_t>(round.step));
    hand_over(round);
  }
  const Result<sync::StepReport> report = strategy_->after_step(round);
  if (!report) throw Error(report.error().message);
  return report->synchronised;
}

Snapshot StrategyMember::snapshot() {
  const std::span<const float> weights = std::as_const(shared()).all();
  Snapshot snapshot{{weights.begin(), weights.end()}, {}};
  for (const StateTensor& part : strategy_->state()) {
    if (part.agreement != Agreement::kConsensus) continue;
    snapshot.consensus[part.name].assign(part.values.begin(), part.values.end());
  }
  return snapshot;
}

bool step_all(std::span<const std::unique_ptr<StrategyMember>> members, const Round& round) {
  std::vector<std::exception_ptr> failures(members.size());
  std::vector<uint8_t> synchronised(members.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        synchronised[i] = members[i]->step(round) ? 1 : 0;
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return synchronised.front() != 0;
}

}  // namespace thinwire::launch
