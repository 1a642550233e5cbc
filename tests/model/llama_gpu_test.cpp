// The LibTorch backend on a GPU against the same backend on the CPU.
#include <gtest/gtest.h>

#include "tests/model/tiny_model.h"
#include "thinwire/tensor/storage/device.h"

namespace thinwire::model {
namespace {

class LlamaGpu : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (tensor::cuda_device_count() == 0) GTEST_SKIP() << "no GPU: " << tensor::cuda_status();
  }
};

// Wide enough for several iterations of a thread block.
method::ModelSpec wide_section() {
  method::ModelSpec model = small_section();
  model.vocab = 1000;
  model.hidden = 512;
  model.options<method::LlamaOptions>().intermediate = 640;
  model.init_std = 0.04;
  return model;
}

TEST_P(LlamaGpu, LossAndGradientsEqualTheProcessors) {
  constexpr int64_t kRows = 3, kSequence = 80;
  const bool fp32 = GetParam() == Precision::kFp32;
  const std::vector<int32_t> tokens = random_tokens(kRows * (kSequence + 1), 1000);
  TinyModel gpu(wide_section(), 2), processor(wide_section(), 2);
  init_parameters(gpu.params, gpu.model, 5);
  init_parameters(processor.params, processor.model, 5);
  const auto on_gpu =
      gpu.make(GetParam(), kRows, kSequence, placement_of(config::DeviceChoice::kCuda));
  const auto on_processor =
      processor.make(GetParam(), kRows, kSequence, placement_of(config::DeviceChoice::kTorchCpu));
  const float scale = 1.0f / (kRows * kSequence);
  const double loss = on_gpu->loss_and_gradients(tokens, kRows, scale, gpu.gradients);
  const double expected =
      on_processor->loss_and_gradients(tokens, kRows, scale, processor.gradients);
  EXPECT_NEAR(loss, expected, (fp32 ? 1e-5 : 5e-3) * expected);
  for (size_t i = 0; i < gpu.layout.size(); ++i) {
    EXPECT_LT(relative_error(gpu.gradients.tensor(i), processor.gradients.tensor(i)),
              fp32 ? 1e-4 : 5e-2)
        << gpu.layout.specs()[i].name;
  }
  gpu.gradients.clear();
  EXPECT_EQ(on_gpu->loss_and_gradients(tokens, kRows, scale, gpu.gradients), loss);
}

INSTANTIATE_TEST_SUITE_P(Precisions, LlamaGpu, testing::Values(Precision::kFp32, Precision::kBf16),
                         [](const auto& test) {
                           return std::string(test.param == Precision::kFp32 ? "fp32" : "bf16");
                         });

}  // namespace
}  // namespace thinwire::model
