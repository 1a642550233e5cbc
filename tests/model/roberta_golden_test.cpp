// RoBERTa against tests/golden/roberta.safetensors: rows of several labelled records, class tokens
// and padding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/model/without_torch.h"
#include "thinwire/architectures/roberta/roberta_spec.h"

namespace thinwire::model {
namespace {

// A model and rows out of the golden file.
struct RobertaGolden {
  RobertaGolden()
      : config(parse_json<nlohmann::json>(file.metadata().at("config"))),
        loss(std::stod(file.metadata().at("loss"))),
        rate(std::stof(file.metadata().at("rate"))),
        weights(file.read_f32("weights")) {
    for (const int64_t token : file.read_integers("tokens")) {
      tokens.push_back(static_cast<int32_t>(token));
    }
    for (const int64_t mark : file.read_integers("begins")) {
      begins.push_back(static_cast<uint8_t>(mark));
    }
  }

  method::ModelSpec section() const {
    method::ModelSpec model;
    model.architecture = "roberta";
    model.own = method::kRoberta.options();
    model.vocab = config.at("vocab_size");
    model.hidden = config.at("hidden_size");
    model.layers = config.at("num_hidden_layers");
    model.heads = config.at("num_attention_heads");
    auto& options = model.options<method::RobertaOptions>();
    options.intermediate = config.at("intermediate_size");
    options.positions =
        config.at("max_position_embeddings").get<int64_t>() - method::kRobertaFirstPosition;
    options.token_types = config.at("type_vocab_size");
    options.norm_eps = config.at("layer_norm_eps");
    options.labels = std::ssize(config.at("id2label"));
    return model;
  }
  std::unique_ptr<TinyModel> model() const {
    auto tiny = std::make_unique<TinyModel>(section(), 2);
    for (size_t i = 0; i < tiny->layout.size(); ++i) {
      file.read_f32(tiny->layout.specs()[i].name, tiny->params.tensor(i));
    }
    return tiny;
  }
  int64_t rows() const { return file.find("weights").shape[0]; }
  int64_t sequence() const { return file.find("weights").shape[1]; }
  int64_t records() const { return file.find("logits").shape[0]; }
  RowMarks marks() const { return {weights, begins}; }

  tensor::SafetensorsReader file{tests::source_file("tests/golden/roberta.safetensors")};
  nlohmann::json config;
  double loss;  // the records' sum
  float rate;
  std::vector<int32_t> tokens;
  std::vector<float> weights;
  std::vector<uint8_t> begins;
};

// Compares what a backend computes with the golden file, to `bound`.
void expect_golden(const RobertaGolden& golden, Precision precision, const Placement& place,
                   double bound) {
  const auto tiny = golden.model();
  const auto made = tiny->make(precision, golden.rows(), golden.sequence(), place);
  tensor::WholeGradients sink(tiny->gradients);
  const double loss = made->loss_and_gradients(golden.tokens, golden.rows(), 1, sink,
                                               {.first = true}, golden.marks());
  EXPECT_NEAR(loss, golden.loss, bound * golden.loss);
  EXPECT_EQ(made->loss(golden.tokens, golden.rows(), golden.marks()), loss);
  EXPECT_LT(relative_error(made->class_logits(golden.tokens, golden.rows(), golden.marks()),
                           golden.file.read_f32("logits")),
            bound);
  for (size_t i = 0; i < tiny->layout.size(); ++i) {
    const std::string& name = tiny->layout.specs()[i].name;
    const auto gradient = std::as_const(tiny->gradients).tensor(i);
    if (name.ends_with("self.key.bias")) {  // 0, but for rounding
      EXPECT_LT(std::abs(*std::ranges::max_element(gradient, {}, [](float g) { return g * g; })),
                bound)
          << name;
      continue;
    }
    EXPECT_LT(relative_error(gradient, golden.file.read_f32("grad." + name)), bound) << name;
  }
}

TEST(RobertaGolden, LossLogitsAndGradientsEqualTheReference) {
  expect_golden(RobertaGolden(), Precision::kFp32, {}, 1e-4);
}

TEST(RobertaGolden, LibTorchEqualsTheReference) {
  const std::string absent = without_torch(
      [] { expect_golden(RobertaGolden(), Precision::kFp32, tensor::DevicePlace{}, 1e-4); });
  if (!absent.empty()) GTEST_SKIP() << absent;
}

// Gradient descent for a few steps, as transformers does it on the same records.
TEST(RobertaGolden, TrainingLosesAsTheReferenceDoes) {
  const RobertaGolden golden;
  const std::vector<float> expected = golden.file.read_f32("losses");
  const auto tiny = golden.model();
  const auto made = tiny->make(Precision::kFp32, golden.rows(), golden.sequence());
  const auto records = static_cast<double>(golden.records());
  tensor::WholeGradients sink(tiny->gradients);
  for (size_t step = 0; step < expected.size(); ++step) {
    const double sum =
        made->loss_and_gradients(golden.tokens, golden.rows(), static_cast<float>(1 / records),
                                 sink, {.first = true}, golden.marks());
    EXPECT_NEAR(sum / records, expected[step], 1e-5 * expected[step]) << step;
    for (size_t i = 0; i < tiny->params.all().size(); ++i) {
      tiny->params.all()[i] -= golden.rate * std::as_const(tiny->gradients).all()[i];
    }
    made->refresh();
  }
}

}  // namespace
}  // namespace thinwire::model
