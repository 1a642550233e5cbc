// Tiny Llama models for tests: the golden ones, and random ones.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/paths.h"
#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/json.h"
#include "thinwire/base/rng.h"
#include "thinwire/base/threads.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/registry.h"
#include "thinwire/tensor/files/safetensors.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::model {

// The largest difference over the largest value.
inline double relative_error(std::span<const float> got, std::span<const float> expected) {
  double difference = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(got[i]) - expected[i]));
    largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
    if (std::isnan(got[i])) return std::numeric_limits<double>::infinity();
  }
  return difference / largest;
}

// The difference's norm over the norm of what is expected: what rounding does to all values
// together, whichever of them it moves by a step of their format.
inline double relative_norm_of_error(std::span<const float> got, std::span<const float> expected) {
  double difference = 0, square = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    square += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / square);
}

// Parameters and the memory a model needs beside it.
struct TinyModel {
  explicit TinyModel(const method::ModelSpec& section, int thread_count = 1)
      : model(section),
        layout(method::tensors_of(section)),
        params(layout),
        gradients(layout),
        threads(thread_count) {}

  std::unique_ptr<Model> make(Precision precision, int64_t rows, int64_t sequence,
                              const Placement& placement = {}) {
    return make_model({model, precision, layout, params, threads, rows, sequence, placement});
  }
  void clear_gradients() { std::fill(gradients.all().begin(), gradients.all().end(), 0.0f); }

  method::ModelSpec model;
  tensor::Layout layout;
  tensor::Arena params;
  tensor::Arena gradients;
  ThreadPool threads;
};

// A model and a batch out of tests/golden/llama_<name>.safetensors.
struct Golden {
  explicit Golden(const std::string& name)
      : file(tests::source_file("tests/golden/llama_" + name + ".safetensors")),
        config(parse_json<nlohmann::json>(file.metadata().at("config"))),
        loss(std::stod(file.metadata().at("loss"))) {
    for (const int64_t token : file.read_integers("tokens")) {
      tokens.push_back(static_cast<int32_t>(token));
    }
  }

  method::ModelSpec section() const {
    method::ModelSpec model;
    model.vocab = config.at("vocab_size");
    model.hidden = config.at("hidden_size");
    model.layers = config.at("num_hidden_layers");
    model.heads = config.at("num_attention_heads");
    auto& llama = model.options<method::LlamaOptions>();
    llama.kv_heads = config.at("num_key_value_heads");
    llama.intermediate = config.at("intermediate_size");
    llama.rope.theta = config.at("rope_theta");
    llama.norm_eps = config.at("rms_norm_eps");
    model.tied = config.at("tie_word_embeddings");
    return model;
  }
  std::unique_ptr<TinyModel> model(int threads = 1) const {
    auto tiny = std::make_unique<TinyModel>(section(), threads);
    for (size_t i = 0; i < tiny->layout.size(); ++i) {
      file.read_f32(tiny->layout.specs()[i].name, tiny->params.tensor(i));
    }
    return tiny;
  }
  int64_t predictions() const { return kRows * kSequence; }

  static constexpr int64_t kRows = 3;
  static constexpr int64_t kSequence = 16;

  tensor::SafetensorsReader file;
  nlohmann::json config;
  double loss;  // mean
  std::vector<int32_t> tokens;
};

inline method::ModelSpec small_section() {
  method::ModelSpec model;
  model.vocab = 67;
  model.hidden = 48;
  model.layers = 2;
  model.heads = 4;
  model.options<method::LlamaOptions>().kv_heads = 2;
  model.options<method::LlamaOptions>().intermediate = 72;
  model.init_std = 0.15;
  return model;
}

inline std::vector<int32_t> random_tokens(int64_t count, int64_t vocabulary, uint64_t seed = 3) {
  Rng rng(seed, 0);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary)));
  }
  return tokens;
}

}  // namespace thinwire::model
