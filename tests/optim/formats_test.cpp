// Weights and state in few bits: AdamW against the trace of an independent reference, exactly, and
// what becomes of state that is not finite.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/method/optimizers/optimizer.h"
#include "thinwire/method/registry.h"
#include "thinwire/optim/optimizer.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::optim {
namespace {

std::vector<TensorSpec> specs() {
  return {{"w", {40, 37}, TensorRole::kMatrix}, {"norm", {77}, TensorRole::kNorm}};
}

method::OptimizerOptions options_of(const std::string& state) {
  return method::optimizer_options(
      method::load_recipe({}, std::vector<std::string>{"run.seed=7", "optim.state=" + state,
                                                       "adamw.beta1=0.9", "adamw.beta2=0.95"}));
}

// An optimizer whose state can be read.
class Readable {
 public:
  explicit Readable(const method::OptimizerOptions& options)
      : layout_(specs()), optimizer_(make_optimizer(options, layout_)), copy_(options, layout_) {}

  const tensor::Layout& layout() const { return layout_; }
  Optimizer& optimizer() { return *optimizer_; }
  std::vector<float> piece(size_t tensor, size_t index) {
    std::vector<OptimizerState> from = optimizer_->state(), to = copy_.all();
    for (size_t i = 0; i < from.size(); ++i) std::ranges::copy(from[i].bytes, to[i].bytes.begin());
    ThreadPool threads(1);
    return copy_.piece(tensor, index).read_all(threads);
  }

 private:
  tensor::Layout layout_;
  std::unique_ptr<Optimizer> optimizer_;
  StateMemory copy_;
};

struct Variant {
  WeightFormat weights;
  StateFormat state;
};

class NumberFormatTrace : public testing::TestWithParam<Variant> {};

INSTANTIATE_TEST_SUITE_P(Formats, NumberFormatTrace,
                         testing::Values(Variant{WeightFormat::kF32, StateFormat::kF32},
                                         Variant{WeightFormat::kF32, StateFormat::kBf16},
                                         Variant{WeightFormat::kF32, StateFormat::k8Bit},
                                         Variant{WeightFormat::kBf16, StateFormat::kF32},
                                         Variant{WeightFormat::kBf16, StateFormat::k8Bit}),
                         [](const auto& variant) {
                           return fmt::format("{}_{}", name_of(variant.param.weights),
                                              name_of(variant.param.state));
                         });

TEST_P(NumberFormatTrace, IsFollowedExactlyWithAnyNumberOfThreads) {
  const tensor::SafetensorsReader golden(tests::source_file("tests/golden/formats.safetensors"));
  const std::vector<float> lr = golden.read_f32("lr");
  for (const int count : {1, 3}) {
    Readable run(options_of(std::string(name_of(GetParam().state))));
    ThreadPool threads(count);
    tensor::Arena params(run.layout(), GetParam().weights), grads(run.layout());
    const auto read = [&](const std::string& prefix, tensor::Arena& to) {
      for (size_t t = 0; t < run.layout().size(); ++t) {
        to.fill_tensor(t, [&](std::span<float> values) {
          golden.read_f32(prefix + "." + specs()[t].name, values);
        });
      }
    };
    read("param", params);
    for (size_t step = 0; step < lr.size(); ++step) {
      read(fmt::format("grad.{}", step), grads);
      run.optimizer().step(params, grads, {step, lr[step]}, threads);
    }
    for (size_t t = 0; t < run.layout().size(); ++t) {
      const auto expect = [&](const char* what, const std::vector<float>& got) {
        const auto key = fmt::format("{}_{}.{}.{}", name_of(GetParam().weights),
                                     name_of(GetParam().state), what, specs()[t].name);
        EXPECT_EQ(got, golden.read_f32(key)) << key;
      };
      std::vector<float> weights(static_cast<size_t>(specs()[t].count()));
      params.read(run.layout().offset(t), weights);
      expect("p", weights);
      expect("m", run.piece(t, 0));
      expect("v", run.piece(t, 1));
    }
  }
}

TEST(StateFormats, StateThatIsNotFiniteEndsTheStep) {
  Readable run(options_of("8bit"));
  ThreadPool threads(2);
  tensor::Arena params(run.layout()), grads(run.layout());
  grads.tensor(0)[1000] = 1e30f;  // whose square is infinite
  EXPECT_THAT(tests::error_of([&] {
                run.optimizer().step(params, grads, {0, 0.1f}, threads);
              }),
              testing::HasSubstr("optimizer state is no longer finite; lower optim.lr"));
}

TEST(StateFormats, AreRefusedByNameIfUnknown) {
  EXPECT_THAT(tests::error_of([] { options_of("int8"); }), testing::HasSubstr("fp32, bf16, 8bit"));
}

}  // namespace
}  // namespace thinwire::optim
