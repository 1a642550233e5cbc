// A folder for the tests on Hugging Face models, with the golden models in it.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/errors.h"
#include "tests/paths.h"
#include "thinwire/base/error.h"
#include "thinwire/base/file.h"
#include "thinwire/base/json.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/convert/hf.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::convert {

using nlohmann::json;
using tensor::SafetensorsReader;
using tensor::SafetensorsWriter;
using tests::error_of;

// Weights by name, as a Hugging Face folder holds them.
struct Weights {
  std::vector<tensor::SafetensorsEntry> entries;
  std::vector<std::vector<float>> values;

  void add(const std::string& name, Shape shape, std::vector<float> data) {
    entries.push_back({name, std::move(shape)});
    values.push_back(std::move(data));
  }
  void remove(const std::string& name) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].name != name) continue;
      entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(i));
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  void write(const fs::path& path, size_t first, size_t last, DType dtype) const {
    const std::vector part(entries.begin() + static_cast<std::ptrdiff_t>(first),
                           entries.begin() + static_cast<std::ptrdiff_t>(last));
    SafetensorsWriter writer(path, part, dtype, {{"format", "pt"}});
    for (size_t i = first; i < last; ++i) writer.write(values[i]);
    writer.commit();
  }
};

// Works on the golden models, whose weights and logits agree with transformers'.
class HuggingFace : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::path(testing::TempDir()) / fmt::format("hf_{}", test->name());
    fs::remove_all(dir_);
    hf_ = dir_ / "hf";
    fs::create_directories(hf_);
    use("gqa");
  }
  void TearDown() override { fs::remove_all(dir_); }

  void use(const std::string& golden) {
    golden_ = std::make_unique<SafetensorsReader>(
        tests::source_file(fmt::format("tests/golden/llama_{}.safetensors", golden)));
    config_ = parse_json<json>(golden_->metadata().at("config"));
    weights_ = {};
    for (const std::string& name : golden_->names()) {
      if (!name.starts_with("model.") && !name.starts_with("lm_head.")) continue;
      weights_.add(name, golden_->find(name).shape, golden_->read_f32(name));
    }
  }
  void write_config() const { write_file(hf_ / "config.json", print_json(config_)); }
  void write_single(DType dtype = DType::kF32) const {
    write_config();
    weights_.write(hf_ / "model.safetensors", 0, weights_.entries.size(), dtype);
  }
  // Two shards with their index.
  void write_sharded() const {
    write_config();
    const size_t middle = weights_.entries.size() / 2;
    weights_.write(hf_ / "model-00001-of-00002.safetensors", 0, middle, DType::kF32);
    weights_.write(hf_ / "model-00002-of-00002.safetensors", middle, weights_.entries.size(),
                   DType::kF32);
    json index;
    for (size_t i = 0; i < weights_.entries.size(); ++i) {
      index["weight_map"][weights_.entries[i].name] =
          fmt::format("model-0000{}-of-00002.safetensors", i < middle ? 1 : 2);
    }
    write_file(hf_ / "model.safetensors.index.json", print_json(index));
  }
  std::string import_error() const {
    return error_of([&] { convert::import_hf(hf_, dir_ / "imported"); });
  }
  // A checkpoint as training leaves it, with the recipe of the imported model.
  void write_checkpoint(uint64_t step, const convert::LoadedModel& model,
                        std::string_view vocabulary) {
    checkpoint::CheckpointWriter writer(dir_ / "run/checkpoints", step);
    writer.write_weights(*model.params);
    writer.add_text(checkpoint::kRecipeFile,
                    read_text_file(dir_ / "imported" / checkpoint::kRecipeFile));
    if (!vocabulary.empty()) writer.add_text(data::kByteFile, vocabulary);
    checkpoint::CheckpointMeta meta;
    meta.step = step;
    writer.commit(meta, 2);
  }
  // Pads or cuts the vocabulary of the model.
  void use_vocabulary_of(int64_t rows) {
    config_["vocab_size"] = rows;
    for (size_t i = 0; i < weights_.entries.size(); ++i) {
      if (weights_.entries[i].shape.front() != 61) continue;
      weights_.entries[i].shape = {rows, 32};
      weights_.values[i].resize(static_cast<size_t>(rows) * 32);
    }
  }
  // With one field of config.json changed; null stands for its absence.
  std::string config_error(const std::string& field, const json& value) {
    const json before = config_;
    config_[field] = value;
    write_config();
    config_ = before;
    return import_error();
  }
  void expect_same_weights(const fs::path& model) const {
    const convert::LoadedModel loaded = convert::load_model(model);
    for (size_t i = 0; i < weights_.entries.size(); ++i) {
      const auto tensor = loaded.params->tensor(loaded.layout->find(weights_.entries[i].name));
      EXPECT_THAT(std::vector<float>(tensor.begin(), tensor.end()),
                  testing::ElementsAreArray(weights_.values[i]))
          << weights_.entries[i].name;
    }
  }

  fs::path dir_;
  fs::path hf_;
  std::unique_ptr<SafetensorsReader> golden_;
  json config_;
  Weights weights_;
};

}  // namespace thinwire::convert
