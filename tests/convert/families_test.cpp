// Golden models of the families that differ from Llama in options, from the fields of their
// config.json to logits, gradients and training: all backends, and text generation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tests/model/tiny_model.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/model/registry.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::convert {
namespace {

using model::relative_error;
using model::TinyModel;
using nlohmann::json;

// Model and batch of tests/golden/family_<name>.safetensors.
struct Family {
  explicit Family(const std::string& name)
      : file(tests::source_file("tests/golden/family_" + name + ".safetensors")),
        config(parse_hf_config(file.metadata().at("config"), "config.json")),
        rate(std::stof(file.metadata().at("rate"))) {
    for (const int64_t token : file.read_integers("tokens")) {
      tokens.push_back(static_cast<int32_t>(token));
    }
    rows = file.find("logits").shape[0];
    length = file.find("logits").shape[1];
  }
  std::unique_ptr<TinyModel> model() const {
    auto tiny = std::make_unique<TinyModel>(config.model, 2);
    for (size_t i = 0; i < tiny->layout.size(); ++i) {
      file.read_f32(tiny->layout.specs()[i].name, tiny->params.tensor(i));
    }
    return tiny;
  }
  double predictions() const { return static_cast<double>(rows * length); }

  tensor::SafetensorsReader file;
  HfConfig config;
  float rate;
  std::vector<int32_t> tokens;
  int64_t rows = 0, length = 0;
};

class FamilyGolden : public testing::TestWithParam<const char*> {
 protected:
  // Backends of which each must agree with the reference.
  static std::vector<model::Placement> placements() {
    std::vector<model::Placement> all = {model::Placement()};
    if (has_torch()) all.push_back(model::placement_of(config::DeviceChoice::kTorchCpu));
    return all;
  }
  static bool has_torch() {
    TinyModel tiny(model::small_section());
    try {
      tiny.make(Precision::kFp32, 1, 4, tensor::DevicePlace{});
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const Family golden_{GetParam()};
};

TEST_P(FamilyGolden, GradientsEqualTheReference) {
  for (const model::Placement& place : placements()) {
    const auto tiny = golden_.model();
    const auto made = tiny->make(Precision::kFp32, golden_.rows, golden_.length, place);
    const auto scale = static_cast<float>(1 / golden_.predictions());
    made->loss_and_gradients(golden_.tokens, golden_.rows, scale, tiny->gradients);
    for (size_t i = 0; i < tiny->layout.size(); ++i) {
      const std::string& name = tiny->layout.specs()[i].name;
      const std::vector<float> expected = golden_.file.read_f32("grad." + name);
      EXPECT_LT(relative_error(std::as_const(tiny->gradients).tensor(i), expected), 1e-4)
          << name << (place ? " by LibTorch" : "");
    }
  }
}

TEST_P(FamilyGolden, Bf16IsClose) {
  for (const model::Placement& place : placements()) {
    const auto tiny = golden_.model();
    const auto made = tiny->make(Precision::kBf16, golden_.rows, golden_.length, place);
    const auto scale = static_cast<float>(1 / golden_.predictions());
    const double sum =
        made->loss_and_gradients(golden_.tokens, golden_.rows, scale, tiny->gradients);
    const float expected = golden_.file.read_f32("losses")[0];
    EXPECT_NEAR(sum / golden_.predictions(), expected, 0.01 * expected);
    for (size_t i = 0; i < tiny->layout.size(); ++i) {
      const std::string& name = tiny->layout.specs()[i].name;
      EXPECT_LT(relative_error(std::as_const(tiny->gradients).tensor(i),
                               golden_.file.read_f32("grad." + name)),
                0.15)
          << name << (place ? " by LibTorch" : "");
    }
  }
}

// Gradient descent for a few steps, as transformers does it on the same data.
TEST_P(FamilyGolden, TrainingLosesAsTheReferenceDoes) {
  const std::vector<float> expected = golden_.file.read_f32("losses");
  const auto tiny = golden_.model();
  const auto made = tiny->make(Precision::kFp32, golden_.rows, golden_.length);
  const auto scale = static_cast<float>(1 / golden_.predictions());
  for (size_t step = 0; step < expected.size(); ++step) {
    const double sum = made->loss_and_gradients(golden_.tokens, golden_.rows, scale,
                                                tiny->gradients, model::Gradients::kReplace);
    EXPECT_NEAR(sum / golden_.predictions(), expected[step], 1e-5 * expected[step]) << step;
    for (size_t i = 0; i < tiny->params.all().size(); ++i) {
      tiny->params.all()[i] -= golden_.rate * std::as_const(tiny->gradients).all()[i];
    }
    made->refresh();
  }
}

TEST_P(FamilyGolden, LogitsOfEveryStepEqualTheReference) {
  const std::vector<float> expected = golden_.file.read_f32("logits");
  const auto vocabulary = static_cast<size_t>(golden_.config.model.vocab);
  const auto inputs = [&](size_t row) {
    return std::span(golden_.tokens)
        .subspan(row * static_cast<size_t>(golden_.length + 1),
                 static_cast<size_t>(golden_.length));
  };
  for (const model::Placement& placement : placements()) {
    SCOPED_TRACE(placement ? "LibTorch" : "our own backend");
    const auto tiny = golden_.model();
    const auto decoder =
        model::make_decoder({tiny->model, tiny->params, tiny->threads, golden_.length, placement});
    for (size_t row = 0; row < static_cast<size_t>(golden_.rows); ++row) {
      const float* at = expected.data() + row * inputs(row).size() * vocabulary;
      std::vector<float> got;
      decoder->reset();
      decoder->prefill_each(inputs(row), [&](std::span<const float> logits) {
        got.insert(got.end(), logits.begin(), logits.end());
      });
      const std::span<const float> all(at, inputs(row).size() * vocabulary);
      ASSERT_EQ(got.size(), all.size());
      EXPECT_LT(relative_error(got, all), 1e-5) << "row " << row;
      decoder->reset();
      for (const int32_t token : inputs(row)) {
        EXPECT_LT(relative_error(decoder->step(token), {at, vocabulary}), 1e-5) << "row " << row;
        at += vocabulary;
      }
    }
  }
}

// Printed and read again, the model is the same.
TEST_P(FamilyGolden, ItsConfigurationComesBack) {
  const json before = parse_json<json>(golden_.file.metadata().at("config"));
  const HfJson printed = print_hf_config(golden_.config, {}, DType::kF32);
  const HfConfig again = parse_hf_config(print_json(printed), "config.json");
  EXPECT_EQ(method::field_values(again.model), method::field_values(golden_.config.model));
  EXPECT_EQ(again.sequence, golden_.config.sequence);
  for (const auto& [name, value] : before.items()) {
    if (name == "rope_parameters" || name.ends_with("_token_id")) continue;
    ASSERT_TRUE(printed.contains(name)) << name;
    EXPECT_EQ(parse_json<json>(print_json(printed[name])), value) << name;
  }
  for (const auto& [name, value] : before["rope_parameters"].items()) {
    EXPECT_EQ(parse_json<json>(print_json(printed["rope_parameters"][name])), value) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, FamilyGolden,
                         testing::Values("llama", "mistral", "qwen2", "qwen3", "olmo2"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace thinwire::convert
