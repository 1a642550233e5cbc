#include <algorithm>
#include <utility>

#include "thinwire/base/simd.h"
#include "thinwire/methods/distro/distro_look_ahead.h"

namespace thinwire::sync {
namespace {

constexpr int64_t kGrain = 1024;

THINWIRE_CLONES void step_by_gradient(float* __restrict delta, const float* __restrict gradient,
                                      int64_t count, float rate) {
  for (int64_t i = 0; i < count; ++i) delta[i] -= rate * gradient[i];
}

THINWIRE_CLONES void step_by_sign(float* __restrict delta, const float* __restrict gradient,
                                  int64_t count, float rate) {
  for (int64_t i = 0; i < count; ++i) {
    delta[i] -= gradient[i] > 0 ? rate : gradient[i] < 0 ? -rate : 0.0f;
  }
}

THINWIRE_CLONES void add(const float* __restrict shared, const float* __restrict delta,
                         float* __restrict params, int64_t count) {
  for (int64_t i = 0; i < count; ++i) params[i] = shared[i] + delta[i];
}

}  // namespace

DistroStateless::DistroStateless(const method::DistroOptions& options,
                                 method::OptimizerOptions optim, tensor::Arena& params,
                                 const tensor::Arena& gradients, ThreadPool& threads)
    : options_(options),
      params_(params),
      gradients_(gradients),
      threads_(threads),
      local_delta_(params.layout()) {
  if (options.local_steps > 1) shared_.emplace(params.layout());
  if (options.local_update == method::DistroUpdate::kAdamW) {
    optim.weight_decay = 0;  // the shared update applies it
    optimizer_ = optim::make_optimizer(optim, params.layout());
  }
}

void DistroStateless::restored(bool within_round) {
  if (!shared_) return;
  if (!within_round) begin_round();
  std::copy(params_.all().begin(), params_.all().end(), shared_->all().begin());
  add(shared_->all().data(), local_delta_.all().data(), params_.all().data(),
      params_.layout().total());
}

void DistroStateless::step(const Round& round, float scale) {
  move(round, scale);
  if (!shared_) return;
  if (round.closes) {
    std::copy(shared_->all().begin(), shared_->all().end(), params_.all().begin());
    return;
  }
  threads_.for_ranges(params_.layout().total(), kGrain, [&](int64_t begin, int64_t end, int) {
    add(shared_->all().data() + begin, local_delta_.all().data() + begin,
        params_.all().data() + begin, end - begin);
  });
}

void DistroStateless::begin_round() {
  std::fill(local_delta_.all().begin(), local_delta_.all().end(), 0.0f);
  if (!optimizer_) return;
  for (const optim::OptimizerState& part : optimizer_->state()) {
    std::ranges::fill(part.bytes, uint8_t{0});
  }
}

void DistroStateless::move(const Round& round, float scale) {
  const uint64_t index = round.step % static_cast<uint64_t>(options_.local_steps);
  if (index == 0) begin_round();
  if (optimizer_) {
    return optimizer_->step(local_delta_, gradients_, {index, round.learning_rate, scale},
                            threads_);
  }
  threads_.for_ranges(local_delta_.layout().total(), kGrain, [&](int64_t begin, int64_t end, int) {
    float* delta = local_delta_.all().data() + begin;
    const float* gradient = gradients_.all().data() + begin;
    if (options_.local_update == method::DistroUpdate::kSign) {
      step_by_sign(delta, gradient, end - begin, round.learning_rate);
    } else {
      step_by_gradient(delta, gradient, end - begin, round.learning_rate * scale);
    }
  });
}

void DistroStateless::share() {
  if (!shared_) return;
  std::copy(params_.all().begin(), params_.all().end(), shared_->all().begin());
}

std::vector<optim::OptimizerState> DistroStateless::state() {
  constexpr Agreement kLocal = Agreement::kLocal;
  if (!shared_) return {};
  std::vector<optim::OptimizerState> state = {{"distro.way", local_delta_.all(), kLocal}};
  if (!optimizer_) return state;
  for (optim::OptimizerState& part : optimizer_->state()) {
    part.name.insert(0, "distro.local_");
    part.agreement = kLocal;
    state.push_back(std::move(part));
  }
  return state;
}

}  // namespace thinwire::sync
