// LoRA under AdamW against the trace of an independent reference (tests/golden/make_lora.py).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/adapted_model.h"
#include "tests/paths.h"
#include "thinwire/base/json.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/optimizer.h"

namespace thinwire::train {
namespace {

using model::AdaptedModel;
using model::Golden;

void expect_near(std::span<const float> got, const std::vector<float>& expected, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], tolerance) << what << " at " << i;
  }
}

TEST(Lora, FollowsTheReference) {
  const Golden base("gqa");
  const tensor::SafetensorsReader trace(tests::source_file("tests/golden/lora.safetensors"));
  const auto options = parse_json<nlohmann::json>(trace.metadata().at("options"));
  method::AdapterSpec adapter = model::small_adapter();
  adapter.rank = options.at("rank");
  adapter.alpha = options.at("alpha");
  adapter.targets = options.at("targets").get<config::StringList>();
  adapter.whole = options.at("whole").get<config::StringList>();
  AdaptedModel adapted(base.section(), adapter);
  const auto names = [](const tensor::Layout& layout, size_t i) { return layout.specs()[i].name; };
  for (size_t i = 0; i < adapted.frozen_layout.size(); ++i) {
    base.file.read_f32(names(adapted.frozen_layout, i), adapted.frozen.tensor(i));
  }
  for (size_t i = 0; i < adapted.layout.size(); ++i) {
    trace.read_f32("start." + names(adapted.layout, i), adapted.params.tensor(i));
  }
  const auto model = adapted.make(Precision::kFp32, Golden::kRows, Golden::kSequence);
  const std::vector<std::string> betas = {"adamw.beta1=0.9", "adamw.beta2=0.95"};
  const auto optimizer = optim::make_optimizer(
      method::optimizer_options(method::load_recipe({}, betas)), adapted.layout);
  const std::vector<float> losses = trace.read_f32("loss");
  const auto scale = static_cast<float>(1.0 / static_cast<double>(base.predictions()));
  for (uint64_t step = 0; step < losses.size(); ++step) {
    const double loss = model->loss_and_gradients(base.tokens, Golden::kRows, scale,
                                                  adapted.gradients, model::Gradients::kReplace);
    EXPECT_NEAR(loss / static_cast<double>(base.predictions()), losses[step], 1e-4);
    optimizer->step(adapted.params, adapted.gradients, {step, options.at("lr").get<float>()},
                    adapted.threads);
    model->refresh();
    for (size_t i = 0; i < adapted.layout.size(); ++i) {
      const std::string name = fmt::format("after.{}.{}", step + 1, names(adapted.layout, i));
      expect_near(std::as_const(adapted.params).tensor(i), trace.read_f32(name), 1e-4, name);
    }
  }
  for (size_t i = 0; i < adapted.layout.size(); ++i) {
    const std::string name = "grad." + names(adapted.layout, i);
    expect_near(std::as_const(adapted.gradients).tensor(i), trace.read_f32(name), 1e-5, name);
  }
  checkpoint::add_adapter(adapted.params, adapter, adapted.frozen, adapted.threads);
  size_t merged = 0;
  for (size_t i = 0; i < adapted.frozen_layout.size(); ++i) {
    const std::string name = "merged." + names(adapted.frozen_layout, i);
    if (!trace.contains(name)) continue;
    expect_near(std::as_const(adapted.frozen).tensor(i), trace.read_f32(name), 1e-4, name);
    ++merged;
  }
  EXPECT_EQ(merged, 8u);
}

}  // namespace
}  // namespace thinwire::train
