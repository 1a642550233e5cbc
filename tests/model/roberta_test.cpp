// RoBERTa with several texts in a row, as labelled records lie there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <tuple>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "thinwire/architectures/roberta/roberta_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/method/registry.h"
#include "thinwire/model/graph_model.h"
#include "thinwire/model/registry.h"

namespace thinwire::model {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kSequence = 12;

// With one label it predicts a number.
method::ModelSpec roberta(int64_t labels) {
  const std::vector<std::string> fields = {
      "model.architecture=roberta",
      fmt::format("model.vocab={}", labels == 1 ? 260 : 67),
      "model.hidden=48",
      "model.layers=3",
      "model.heads=4",
      "model.init_std=0.15",
      fmt::format("roberta.labels={}", labels),
      "roberta.positions=12",
      labels == 1 ? "data.records=numbers" : "data.records=labels",
      "train.sequence=12"};
  return method::ModelSpec(method::load_recipe({}, fields));
}

// Two rows: texts of 5 and 4 tokens, each followed by its class, and one of 9 tokens and padding.
struct Rows {
  std::vector<int32_t> tokens = {0, 11, 12, 13, 2, 1, 0,  21, 22, 2, 2, 0, 0,  //
                                 0, 31, 32, 33, 2, 2, 34, 35, 2,  0, 0, 0, 0};
  std::vector<float> weights = {0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0,  //
                                0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0};
  std::vector<uint8_t> begins = {1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1,  //
                                 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0};
  RowMarks marks() const { return {weights, begins}; }
};

// Of each row one text, of 5 and 9 tokens, and its number: 1 and -2.5. The second fills its row.
Rows rows_of_numbers() {
  return {{0, 11, 12, 13, 2, 0, 0,  0x80, 0x3F, 0, 0, 0,    0,  //
           0, 31, 32, 33, 2, 2, 34, 35,   2,    0, 0, 0x20, 0xC0},
          {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0,  //
           0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
          {1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0,  //
           1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0}};
}

// A random model, on our own backend or on LibTorch's.
struct Subject {
  explicit Subject(const Placement& place = {}, Precision precision = Precision::kFp32,
                   int64_t labels = 3)
      : tiny(roberta(labels), 2) {
    init_parameters(tiny.params, tiny.model, 5);
    model = make_model(
        {tiny.model, precision, tiny.layout, tiny.params, tiny.threads, 2, kSequence, place});
  }
  double step(const Rows& rows) {
    tensor::WholeGradients sink(tiny.gradients);
    return model->loss_and_gradients(rows.tokens, 2, 0.5f, sink, {.first = true}, rows.marks());
  }

  TinyModel tiny;
  std::unique_ptr<Model> model;
};

TEST(Roberta, PredictsTheClassOfEachTextByItself) {
  const Rows rows;
  Subject together;
  const std::vector<float> logits = together.model->class_logits(rows.tokens, 2, rows.marks());
  ASSERT_EQ(logits.size(), 9u);
  // One text in a row without marks: everything before the last token.
  const std::vector<std::vector<int32_t>> alone = {
      {0, 11, 12, 13, 2, 1}, {0, 21, 22, 2, 2}, {0, 31, 32, 33, 2, 2, 34, 35, 2, 0}};
  double loss = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    const std::vector<float> expected = together.model->class_logits(alone[i], 1);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(logits[3 * i + c], expected[c], 1e-5) << i;
    loss += together.model->loss(alone[i], 1);
  }
  EXPECT_NEAR(together.model->loss(rows.tokens, 2, rows.marks()), loss, 1e-5);
}

TEST(Roberta, TheLossIsTheCrossEntropyOfTheLogits) {
  const Rows rows;
  Subject subject;
  const std::vector<float> logits = subject.model->class_logits(rows.tokens, 2, rows.marks());
  const std::vector<size_t> classes = {1, 2, 0};
  double expected = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    double sum = 0;
    for (size_t c = 0; c < 3; ++c) sum += std::exp(double{logits[3 * i + c]});
    expected += std::log(sum) - logits[3 * i + classes[i]];
  }
  EXPECT_NEAR(subject.model->loss(rows.tokens, 2, rows.marks()), expected, 1e-5);
}

TEST(Roberta, DoesNotSeeTheClassItPredicts) {
  Rows rows;
  Subject subject;
  const std::vector<float> before = subject.model->class_logits(rows.tokens, 2, rows.marks());
  rows.tokens[5] = 0;   // the class of the first text,
  rows.tokens[25] = 7;  // and padding
  EXPECT_EQ(subject.model->class_logits(rows.tokens, 2, rows.marks()), before);
  rows.tokens[1] = 7;  // but its words matter
  EXPECT_NE(subject.model->class_logits(rows.tokens, 2, rows.marks()), before);
}

void expect_slopes(Subject& subject, const Rows& rows) {
  subject.step(rows);
  for (size_t i = 0; i < subject.tiny.layout.size(); ++i) {
    const std::string& name = subject.tiny.layout.specs()[i].name;
    if (name.ends_with("self.key.bias")) continue;  // 0, but for rounding
    const auto gradient = std::as_const(subject.tiny.gradients).tensor(i);
    const double length =
        std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
    ASSERT_GT(length, 0) << name;
    const std::vector<float> before(subject.tiny.params.tensor(i).begin(),
                                    subject.tiny.params.tensor(i).end());
    const auto loss_at = [&](double step) {
      for (size_t j = 0; j < before.size(); ++j) {
        subject.tiny.params.tensor(i)[j] =
            before[j] + static_cast<float>(step * gradient[j] / length);
      }
      return 0.5 * subject.model->loss(rows.tokens, 2, rows.marks());
    };
    constexpr double kStep = 1e-2;
    EXPECT_NEAR((loss_at(kStep) - loss_at(-kStep)) / (2 * kStep), length, 0.02 * length) << name;
    loss_at(0);
  }
}

TEST(Roberta, GradientsOfPackedTextsAreTheSlopesOfTheLoss) {
  Subject subject;
  expect_slopes(subject, {});
}

TEST(Roberta, TheLossOfNumbersIsTheirSquaredError) {
  const Rows rows = rows_of_numbers();
  Subject subject({}, Precision::kFp32, 1);
  const std::vector<float> predicted = subject.model->class_logits(rows.tokens, 2, rows.marks());
  ASSERT_EQ(predicted.size(), 2u);
  const double expected = std::pow(predicted[0] - 1, 2) + std::pow(predicted[1] + 2.5, 2);
  EXPECT_NEAR(subject.model->loss(rows.tokens, 2, rows.marks()), expected, 1e-5);
  expect_slopes(subject, rows);
}

TEST(Roberta, RefusesWhatIsNoNumber) {
  Rows rows = rows_of_numbers();
  Subject subject({}, Precision::kFp32, 1);
  rows.tokens[8] = 257;
  EXPECT_THAT([&] { subject.step(rows); }, ThrowsMessage<Error>(HasSubstr("is not a number")));
}

// A query's gradient is a sum over keys that nearly cancels, here of one query: errors are 1 to 2 %
// elsewhere.
constexpr double kBf16Bound = 0.1;

// Both backends beside our own in fp32, which is compared with slopes and with golden values.
TEST(Roberta, LibTorchComputesTheSame) {
  const std::string absent = without_torch([] { const Subject torch(tensor::DevicePlace{}); });
  if (!absent.empty()) GTEST_SKIP() << absent;
  for (const int labels : {3, 1}) {
    const Rows rows = labels == 1 ? rows_of_numbers() : Rows();
    Subject exact({}, Precision::kFp32, labels);
    const double loss = exact.step(rows);
    const auto logits = exact.model->class_logits(rows.tokens, 2, rows.marks());
    for (const auto& [place, precision, bound] :
         {std::tuple{Placement(tensor::DevicePlace{}), Precision::kFp32, 2e-5},
          std::tuple{Placement(tensor::DevicePlace{}), Precision::kBf16, kBf16Bound},
          std::tuple{Placement(), Precision::kBf16, kBf16Bound}}) {
      Subject subject(place, precision, labels);
      EXPECT_NEAR(subject.step(rows), loss, bound * 10);
      for (size_t i = 0; i < exact.tiny.layout.size(); ++i) {
        const std::string& name = exact.tiny.layout.specs()[i].name;
        if (name.ends_with("self.key.bias")) continue;  // 0, but for rounding
        const auto a = std::as_const(exact.tiny.gradients).tensor(i);
        const auto b = std::as_const(subject.tiny.gradients).tensor(i);
        double difference = 0, size = 0;
        for (size_t j = 0; j < a.size(); ++j) {
          difference += (a[j] - b[j]) * (a[j] - b[j]);
          size += a[j] * a[j];
        }
        EXPECT_LT(std::sqrt(difference), bound * std::sqrt(size) + 1e-5) << name;
      }
      const auto others = subject.model->class_logits(rows.tokens, 2, rows.marks());
      for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(others[i], logits[i], 10 * bound);
    }
  }
}

TEST(Roberta, RefusesClassesThatItDoesNotHave) {
  Rows rows;
  rows.tokens[5] = 3;
  Subject subject;
  EXPECT_THAT([&] { subject.model->loss(rows.tokens, 2, rows.marks()); },
              ThrowsMessage<Error>(HasSubstr("a text is of class 3, but the model distinguishes 3 "
                                             "([roberta] labels), from 0 to 2")));
}

}  // namespace
}  // namespace thinwire::model
