// Steps computed on a device against the same steps on the host, for the tests of both kinds of
// device.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/base/rng.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::optim {

// Tensors that are larger, smaller and no multiple of what a thread block takes.
inline const tensor::Layout& device_step_layout() {
  static const tensor::Layout layout({{"matrix", {301, 257}, TensorRole::kMatrix},
                                      {"norm", {77}, TensorRole::kNorm},
                                      {"block", {64, 64}, TensorRole::kMatrix},
                                      {"one", {1}, TensorRole::kNorm}});
  return layout;
}

// Parameters, gradients and state of an optimizer, on a device or only on the host.
class DeviceSteps {
 public:
  DeviceSteps(const std::vector<std::string>& overrides, const tensor::DevicePlace* device,
              bool replicated = true)
      : optimizer_(make_optimizer(options_of(overrides, replicated), device_step_layout())) {
    fill(params_, 0);
    if (device == nullptr) return;
    params_.mirror_on(*device);
    gradients_.mirror_on(*device);
  }

  // last: the gradient of the last parameter, if it is not drawn.
  void step(uint64_t number, std::optional<float> last = {}) {
    fill(gradients_, 1 + number);
    if (last) gradients_.tensor(gradients_.layout().size() - 1).back() = *last;
    norm = norm_.of(gradients_, threads_);
    optimizer_->step(
        params_, std::as_const(gradients_), {number, 0.01f},
        [](size_t tensor) { return tensor == 2 ? 0.5f : 1.0f; }, threads_);
  }

  // What a checkpoint holds, and what restoring it writes.
  std::vector<std::vector<uint8_t>> saved() {
    std::vector<std::vector<uint8_t>> all;
    for (const OptimizerState& part : optimizer_->state()) {
      all.emplace_back(part.bytes.begin(), part.bytes.end());
    }
    return all;
  }
  void restore(const std::vector<std::vector<uint8_t>>& from) {
    const std::vector<OptimizerState> state = optimizer_->state();
    for (size_t part = 0; part < state.size(); ++part) {
      std::ranges::copy(from[part], state[part].bytes.begin());
    }
  }
  void reset() { optimizer_->reset(); }
  std::span<const float> params() const { return params_.all(); }

  double norm = 0;

 private:
  static method::OptimizerOptions options_of(const std::vector<std::string>& overrides,
                                             bool replicated) {
    method::OptimizerOptions options =
        method::optimizer_options(method::load_recipe({}, overrides));
    options.replicated = replicated;
    return options;
  }
  static void fill(tensor::Arena& arena, uint64_t seed) {
    Rng rng(seed, 0);
    for (size_t tensor = 0; tensor < arena.layout().size(); ++tensor) {
      for (float& value : arena.tensor(tensor)) value = static_cast<float>(rng.normal());
    }
  }

  ThreadPool threads_{2};
  tensor::Arena params_{device_step_layout()}, gradients_{device_step_layout()};
  ArenaNorm norm_;
  std::unique_ptr<Optimizer> optimizer_;
};

inline void expect_same_steps(const std::vector<std::string>& overrides,
                              const tensor::DevicePlace& device) {
  DeviceSteps host(overrides, nullptr), other(overrides, &device);
  const auto expect_same = [&](uint64_t number) {
    host.step(number);
    other.step(number);
    EXPECT_EQ(other.norm, host.norm) << "step " << number;
    EXPECT_THAT(other.params(), testing::ElementsAreArray(host.params())) << "step " << number;
  };
  for (uint64_t number = 0; number < 3; ++number) expect_same(number);
  const auto saved = host.saved();
  EXPECT_EQ(other.saved(), saved);
  expect_same(3);
  host.restore(saved);
  other.restore(saved);
  expect_same(3);
  host.reset();
  other.reset();
  expect_same(0);
}

// Muon on a worker that shares no bits: the state and what AdamW updates are the host's, and a
// matrix moves by the host's step up to the rounding of bf16 products.
inline void expect_near_muon_steps(const std::string& state, const tensor::DevicePlace& device) {
  const std::vector<std::string> fields = {"optim.method=muon", "optim.state=" + state};
  DeviceSteps host(fields, nullptr), other(fields, &device, false);
  const std::vector<float> before(host.params().begin(), host.params().end());
  for (uint64_t number = 0; number < 3; ++number) {
    host.step(number);
    other.step(number);
  }
  EXPECT_EQ(other.saved(), host.saved());
  const tensor::Layout& layout = device_step_layout();
  for (size_t tensor = 0; tensor < layout.size(); ++tensor) {
    double moved = 0, apart = 0;
    for (int64_t i = 0; i < layout.specs()[tensor].count(); ++i) {
      const auto at = static_cast<size_t>(layout.offset(tensor) + i);
      moved += std::pow(double{host.params()[at]} - before[at], 2);
      apart += std::pow(double{host.params()[at]} - other.params()[at], 2);
    }
    const bool is_matrix = layout.specs()[tensor].role == TensorRole::kMatrix;
    EXPECT_LE(apart, is_matrix ? 0.02 * 0.02 * moved : 0) << tensor;
    EXPECT_EQ(apart > 0, is_matrix) << tensor;
  }
}

inline void expect_not_finite(const tensor::DevicePlace& device) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    DeviceSteps other({"optim.state=8bit"}, &device);
    other.step(0);
    EXPECT_THAT([&] { other.step(1, value); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("state is no longer finite")));
  }
}

}  // namespace thinwire::optim
