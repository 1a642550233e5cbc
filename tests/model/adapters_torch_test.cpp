// Models with adapters: the LibTorch backend against our own on the CPU.
#include <gtest/gtest.h>

#include <utility>

#include "tests/model/adapted_model.h"

namespace thinwire::model {
namespace {

constexpr int64_t kRows = 3;
constexpr int64_t kSequence = 24;

TEST(AdaptersTorch, LossAndGradientsEqualOurOwn) {
  const auto tokens = random_tokens(kRows * (kSequence + 1), 67);
  using method::AdapterKind;
  for (const AdapterKind kind : {AdapterKind::kLora, AdapterKind::kLowRank}) {
    method::AdapterSpec adapter = small_adapter(kind);
    adapter.targets = {"q_proj", "v_proj", "up_proj", "down_proj"};
    if (kind == AdapterKind::kLora) adapter.whole = {"model.norm", "k_proj"};
    for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
      const bool fp32 = precision == Precision::kFp32;
      AdaptedModel own(small_section(), adapter), torch(small_section(), adapter);
      const double expected = own.make(precision, kRows, kSequence)
                                  ->loss_and_gradients(tokens, kRows, 0.5f, own.gradients);
      const auto model = torch.make(precision, kRows, kSequence, tensor::DevicePlace{});
      EXPECT_NEAR(model->loss_and_gradients(tokens, kRows, 0.5f, torch.gradients), expected,
                  (fp32 ? 1e-5 : 5e-3) * expected);
      for (size_t i = 0; i < own.layout.size(); ++i) {
        EXPECT_LT(relative_error(std::as_const(torch.gradients).tensor(i),
                                 std::as_const(own.gradients).tensor(i)),
                  fp32 ? 1e-5 : 0.1)
            << own.layout.specs()[i].name;
      }
    }
  }
}

}  // namespace
}  // namespace thinwire::model
