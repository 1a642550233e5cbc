// Steps computed on a device against the same steps on the host, for the tests of both kinds of
// device.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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
  DeviceSteps(const std::vector<std::string>& overrides, const tensor::DevicePlace* device)
      : optimizer_(make_optimizer(method::optimizer_options(method::load_recipe({}, overrides)),
                                  device_step_layout())) {
    fill(params_, 0);
    if (device == nullptr) return;
    params_.mirror_on(*device);
    gradients_.mirror_on(*device);
  }

  void step(uint64_t number) {
    fill(gradients_, 1 + number);
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

}  // namespace thinwire::optim
