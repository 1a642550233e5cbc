// Gradients of embedding and head in slabs of rows (model.vocab_slabs), against the whole ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/tiny_model.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/memory/memory.h"
#include "thinwire/tensor/storage/gradient_sink.h"

namespace thinwire::model {
namespace {

constexpr int64_t kRows = 3, kRowTokens = 20;
constexpr int64_t kVocabulary = 5000;  // of which rows are cut at multiples of 64

method::ModelSpec section(int64_t slabs) {
  method::ModelSpec model = small_section();
  model.vocab = kVocabulary;
  model.hidden = 64;
  model.vocab_slabs = slabs;
  return model;
}

class VocabularySlabs : public testing::TestWithParam<Precision> {
 protected:
  // In bf16 the gradient of a logit with other last bits may be rounded to the other neighbour.
  static double bound() { return GetParam() == Precision::kFp32 ? 1e-5 : 1e-3; }
  static void init(TinyModel& tiny) { init_parameters(tiny.params, tiny.model, 5); }
  const std::vector<int32_t> tokens_ = random_tokens(kRows * (kRowTokens + 1), kVocabulary);
};

INSTANTIATE_TEST_SUITE_P(Precisions, VocabularySlabs,
                         testing::Values(Precision::kFp32, Precision::kBf16), [](const auto& test) {
                           return test.param == Precision::kFp32 ? "fp32" : "bf16";
                         });

// The weights of a slab become NaN as soon as its gradient is handed over.
TEST_P(VocabularySlabs, AreTheRowsOfTheWholeGradientsAndTheLossHasTheSameBits) {
  TinyModel whole(section(1), 2);
  init(whole);
  const double loss = whole.make(GetParam(), kRows, kRowTokens)
                          ->loss_and_gradients(tokens_, kRows, 0.5f, whole.gradients);
  for (const int64_t slabs : {2, 7, 1000}) {
    TinyModel cut(section(slabs), 2);
    init(cut);
    const auto model = cut.make(GetParam(), kRows, kRowTokens);
    std::vector<std::vector<float>> taken(cut.layout.size());
    std::vector<int64_t> times(cut.layout.size());
    const auto take = [&](size_t tensor, std::span<const float> gradient) {
      ++times[tensor];
      const auto rows = cut.params.tensor(tensor).subspan(taken[tensor].size(), gradient.size());
      taken[tensor].insert(taken[tensor].end(), gradient.begin(), gradient.end());
      std::ranges::fill(rows, std::numeric_limits<float>::quiet_NaN());
      model->refresh();
    };
    tensor::StreamedGradients sink(cut.layout, model->stream_size(), {take, [](int) {}});
    EXPECT_EQ(model->loss_and_gradients(tokens_, kRows, 0.5f, sink, {}), loss);
    for (size_t i = 0; i < cut.layout.size(); ++i) {
      const TensorSpec& tensor = cut.layout.specs()[i];
      const int64_t formed = method::formed_elements(tensor, slabs);
      EXPECT_EQ(times[i], (tensor.count() + formed - 1) / formed) << tensor.name;
      const auto expected = std::as_const(whole.gradients).tensor(i);
      if (tensor.role == TensorRole::kHead) {
        EXPECT_LT(relative_error(taken[i], expected), bound()) << slabs;
      } else {
        EXPECT_TRUE(std::ranges::equal(taken[i], expected)) << tensor.name << ", " << slabs;
      }
    }
  }
}

TEST_P(VocabularySlabs, GoToASinkOfWholeGradientsAsWell) {
  TinyModel whole(section(1), 2), cut(section(3), 2);
  init(whole);
  init(cut);
  // Twice, of which the second adds.
  for (TinyModel* tiny : {&whole, &cut}) {
    const auto model = tiny->make(GetParam(), kRows, kRowTokens);
    model->loss_and_gradients(tokens_, kRows, 0.5f, tiny->gradients, Gradients::kReplace);
    model->loss_and_gradients(tokens_, kRows, 0.5f, tiny->gradients, Gradients::kAdd);
  }
  EXPECT_LT(
      relative_error(std::as_const(cut.gradients).all(), std::as_const(whole.gradients).all()),
      bound());
}

TEST(VocabularySlabsMemory, IsThatOfOneSlabOrOfTheLargestProduct) {
  for (const int64_t slabs : {1, 2, 40}) {
    for (const int64_t width : {64, 20}) {
      method::ModelSpec model = section(slabs);
      model.hidden = width;
      model.heads = 2;
      TinyModel tiny(model);
      const auto made = tiny.make(Precision::kFp32, kRows, kRowTokens);
      const tensor::StreamedGradients sink(tiny.layout, made->stream_size(), {});
      const auto& facts = method::find_architecture(model.architecture);
      EXPECT_EQ(static_cast<double>(sink.bytes()),
                facts.memory(model, {kRows, kRowTokens, 4}).streamed_gradients)
          << slabs << " of width " << width;
    }
  }
}

}  // namespace
}  // namespace thinwire::model
