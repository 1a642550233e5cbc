// Rows of several documents against each document in a row of its own, for our own backend and
// LibTorch's on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/model/batch.h"
#include "thinwire/model/model.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {
namespace {

using config::DeviceChoice;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kRows = 2;
constexpr int64_t kSequence = 200;  // several blocks of queries and keys
constexpr int64_t kVocabulary = 67;

struct Case {
  DeviceChoice device;
  Precision precision;
  int64_t window;
};

class Documents : public testing::TestWithParam<Case> {
 protected:
  Documents() : tiny_(section(), 2) { init_parameters(tiny_.params, tiny_.model, 5); }

  void SetUp() override {
    const std::string absent = without_torch([&] {
      model_ = tiny_.make(GetParam().precision, kRows, kSequence, placement_of(GetParam().device));
    });
    if (!absent.empty()) GTEST_SKIP() << absent;
  }

  static method::ModelSpec section() {
    method::ModelSpec model = small_section();
    model.options<method::LlamaOptions>().window = GetParam().window;
    return model;
  }

  double add_gradients(std::span<const int32_t> tokens, int64_t rows, bool replace,
                       const RowMarks& marks = {}) {
    tensor::WholeGradients sink(tiny_.gradients);
    return model_->loss_and_gradients(tokens, rows, 0.5f, sink, {.first = replace}, marks);
  }

  // The first row holds documents of 1, 129 and 70 tokens, the second is one.
  void mark() {
    begins_.assign(kRows * kSequence, 0);
    begins_[1] = begins_[130] = begins_[kSequence] = 1;
  }
  // The sum of the losses, and the gradients, of all documents, each by itself.
  double each_alone() {
    double loss = 0;
    for (const auto& [first, count] : {Document{0, 1}, {1, 129}, {130, 70}, {201, 200}}) {
      const auto tokens =
          std::span(tokens_).subspan(static_cast<size_t>(first), static_cast<size_t>(count) + 1);
      loss += add_gradients(tokens, 1, first == 0);
    }
    return loss;
  }

  TinyModel tiny_;
  std::unique_ptr<Model> model_;
  std::vector<uint8_t> begins_;
  std::vector<int32_t> tokens_ = random_tokens(kRows * (kSequence + 1), kVocabulary);
};

TEST_P(Documents, InARowAreAsInRowsOfTheirOwn) {
  const bool fp32 = GetParam().precision == Precision::kFp32;
  const double expected = each_alone();
  TinyModel alone(tiny_.model);
  std::ranges::copy(std::as_const(tiny_.gradients).all(), alone.gradients.all().begin());
  mark();
  const double loss = add_gradients(tokens_, kRows, true, {.begins = begins_});
  EXPECT_NEAR(loss, expected, (fp32 ? 1e-6 : 2e-3) * expected);
  for (size_t i = 0; i < tiny_.layout.size(); ++i) {
    EXPECT_LT(relative_error(std::as_const(tiny_.gradients).tensor(i),
                             std::as_const(alone.gradients).tensor(i)),
              fp32 ? 1e-5 : 3e-2)
        << tiny_.layout.specs()[i].name;
  }
  EXPECT_EQ(model_->loss(tokens_, kRows, {.begins = begins_}), loss);
  EXPECT_GT(std::abs(model_->loss(tokens_, kRows) - loss), 0.01) << "without marks";
}

// The marks of one batch say nothing of the next.
TEST_P(Documents, AreThoseOfTheirBatchOnly) {
  const double before = model_->loss(tokens_, kRows);
  mark();
  const double divided = model_->loss(tokens_, kRows, {.begins = begins_});
  begins_[130] = 0;
  EXPECT_NE(model_->loss(tokens_, kRows, {.begins = begins_}), divided);
  EXPECT_EQ(model_->loss(tokens_, kRows), before);
}

TEST_P(Documents, NeedAMarkForEachPrediction) {
  begins_.assign(kRows * kSequence - 1, 0);
  EXPECT_THAT([&] { model_->loss(tokens_, kRows, {.begins = begins_}); },
              ThrowsMessage<Error>(HasSubstr("400 predictions with 0 weights and 399 marks")));
}

INSTANTIATE_TEST_SUITE_P(Backends, Documents,
                         testing::Values(Case{DeviceChoice::kCpu, Precision::kFp32, 0},
                                         Case{DeviceChoice::kCpu, Precision::kFp32, 40},
                                         Case{DeviceChoice::kCpu, Precision::kBf16, 0},
                                         Case{DeviceChoice::kTorchCpu, Precision::kFp32, 0},
                                         Case{DeviceChoice::kTorchCpu, Precision::kFp32, 40},
                                         Case{DeviceChoice::kTorchCpu, Precision::kBf16, 0}),
                         [](const auto& test) {
                           const Case& one = test.param;
                           return std::string(name_of(one.device)) +
                                  (one.precision == Precision::kFp32 ? "_fp32" : "_bf16") +
                                  (one.window == 0 ? "" : "_window");
                         });

}  // namespace
}  // namespace thinwire::model
