#include "thinwire/convert/hf.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "thinwire/base/bf16.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/error.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/model/registry.h"

namespace thinwire::convert {
namespace {

using nlohmann::json;
using tensor::SafetensorsReader;
using tensor::SafetensorsWriter;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

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
    config_ = json::parse(golden_->metadata().at("config"));
    weights_ = {};
    for (const std::string& name : golden_->names()) {
      if (!name.starts_with("model.") && !name.starts_with("lm_head.")) continue;
      weights_.add(name, golden_->find(name).shape, golden_->read_f32(name));
    }
  }
  void write_config() const { write_file(hf_ / "config.json", config_.dump()); }
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
    write_file(hf_ / "model.safetensors.index.json", index.dump());
  }
  std::string import_error() const {
    return error_of([&] { import_hf(hf_, dir_ / "imported"); });
  }
  // A checkpoint as training leaves it, by the recipe of what was imported.
  void write_checkpoint(uint64_t step, const LoadedModel& model, std::string_view vocabulary) {
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
    const LoadedModel loaded = load_model(model);
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

TEST_F(HuggingFace, ImportedModelsGiveTheLogitsOfTransformers) {
  for (const char* golden : {"untied", "tied", "gqa"}) {
    use(golden);
    write_single();
    import_hf(hf_, dir_ / golden);
    const LoadedModel loaded = load_model(dir_ / golden);
    ThreadPool threads(1);
    const auto decoder =
        model::make_decoder({loaded.model, *loaded.params, threads, loaded.sequence});
    const auto tokens = golden_->read_integers("tokens");
    const auto logits = golden_->read_f32("logits");
    for (size_t t = 0; t < 16; ++t) {
      const auto got = decoder->step(static_cast<int32_t>(tokens[t]));
      for (size_t v = 0; v < got.size(); ++v) {
        EXPECT_NEAR(got[v], logits[t * got.size() + v], 1e-4) << golden << " position " << t;
      }
    }
  }
}

TEST_F(HuggingFace, ImportThenExportGivesBackTheSameFolder) {
  write_single();
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"), ElementsAre(HasSubstr("no tokenizer.model")));
  EXPECT_THAT(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32),
              ElementsAre(HasSubstr("no vocabulary")));
  expect_same_weights(dir_ / "exported");
  const json exported = json::parse(read_text_file(dir_ / "exported/config.json"));
  for (const auto& [key, value] : config_.items()) {
    if (key.ends_with("_token_id")) continue;
    EXPECT_EQ(exported.at(key), value) << key;
  }
  EXPECT_EQ(exported["rope_parameters"]["rope_theta"], config_["rope_theta"]);
  EXPECT_EQ(exported["head_dim"], 8);
}

TEST_F(HuggingFace, ShardedWeightsAreFoundByTheirIndex) {
  write_sharded();
  import_hf(hf_, dir_ / "imported");
  expect_same_weights(dir_ / "imported");
}

TEST_F(HuggingFace, LoadModelTakesTheFolderAsItIs) {
  write_sharded();
  expect_same_weights(hf_);
  EXPECT_EQ(load_model(hf_).sequence, 64);
}

TEST_F(HuggingFace, Bf16WeightsAreReadAndWrittenExactly) {
  for (auto& values : weights_.values) {
    for (float& value : values) value = round_to_bf16(value);
  }
  write_single(DType::kBf16);
  import_hf(hf_, dir_ / "imported");
  expect_same_weights(dir_ / "imported");
  export_hf(dir_ / "imported", dir_ / "exported", DType::kBf16);
  const SafetensorsReader exported(dir_ / "exported/model.safetensors");
  EXPECT_EQ(exported.find("model.norm.weight").dtype, DType::kBf16);
  EXPECT_EQ(exported.metadata().at("format"), "pt");
  expect_same_weights(dir_ / "exported");
  EXPECT_EQ(json::parse(read_text_file(dir_ / "exported/config.json"))["torch_dtype"], "bfloat16");
}

TEST_F(HuggingFace, FieldsTransformersLeavesOutTakeItsDefaults) {
  use("untied");
  for (const char* field :
       {"num_key_value_heads", "tie_word_embeddings", "hidden_act", "rope_theta", "attention_bias",
        "mlp_bias", "max_position_embeddings"}) {
    config_.erase(field);
  }
  config_["rms_norm_eps"] = nullptr;
  config_["head_dim"] = nullptr;
  config_["rope_scaling"] = nullptr;
  write_single();
  const LoadedModel loaded = load_model(hf_);
  EXPECT_EQ(loaded.model.kv_heads, 4);
  EXPECT_EQ(loaded.model.rope_theta, 10000);
  EXPECT_EQ(loaded.model.norm_eps, 1e-6);
  EXPECT_FALSE(loaded.model.tied);
  EXPECT_EQ(loaded.sequence, 2048);
}

TEST_F(HuggingFace, RopeThetaIsReadFromEitherPlace) {
  config_.erase("rope_theta");
  config_["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 12345.0}};
  write_single();
  EXPECT_EQ(load_model(hf_).model.rope_theta, 12345);
}

TEST_F(HuggingFace, WhatTheModelLacksIsRefusedByName) {
  write_single();
  EXPECT_THAT(config_error("model_type", "mistral"),
              AllOf(HasSubstr("config.json"), HasSubstr("model_type is \"mistral\""),
                    HasSubstr("only \"llama\"")));
  EXPECT_THAT(config_error("attention_bias", true), HasSubstr("attention_bias is true"));
  EXPECT_THAT(config_error("mlp_bias", true), HasSubstr("mlp_bias is true"));
  EXPECT_THAT(config_error("hidden_act", "gelu"), HasSubstr("hidden_act is \"gelu\""));
  EXPECT_THAT(config_error("head_dim", 16), HasSubstr("head_dim is 16"));
  EXPECT_THAT(config_error("quantization_config", json::object()),
              HasSubstr("quantization_config"));
  EXPECT_THAT(config_error("rope_scaling", {{"type", "linear"}, {"factor", 2.0}}),
              HasSubstr("rope_scaling.rope_type is \"linear\""));
  EXPECT_THAT(config_error("rope_parameters", {{"rope_type", "llama3"}}),
              HasSubstr("rope_parameters.rope_type is \"llama3\""));
  EXPECT_THAT(config_error("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor"));
}

TEST_F(HuggingFace, WrongConfigurationFieldsAreNamed) {
  write_single();
  EXPECT_THAT(config_error("hidden_size", nullptr), HasSubstr("hidden_size is missing"));
  EXPECT_THAT(config_error("hidden_size", "32"), HasSubstr("hidden_size must be a whole number"));
  EXPECT_THAT(config_error("num_hidden_layers", -1), HasSubstr("num_hidden_layers must be"));
  EXPECT_THAT(config_error("num_hidden_layers", 1'000'000'000), HasSubstr("num_hidden_layers"));
  EXPECT_THAT(config_error("num_attention_heads", 5), HasSubstr("hidden_size 32"));
  EXPECT_THAT(config_error("num_key_value_heads", 3), HasSubstr("num_key_value_heads 3"));
  EXPECT_THAT(config_error("rope_theta", 0.5), HasSubstr("rope_theta must be > 1, got 0.5"));
  EXPECT_THAT(config_error("rope_theta", -1e4), HasSubstr("rope_theta must be > 1, got -10000"));
  EXPECT_THAT(config_error("rms_norm_eps", 0),
              HasSubstr("rms_norm_eps must be > 0 and <= 1, got 0"));
  EXPECT_THAT(config_error("rms_norm_eps", -1),
              HasSubstr("rms_norm_eps must be > 0 and <= 1, got -1"));
  EXPECT_THAT(config_error("rms_norm_eps", "x"),
              HasSubstr("rms_norm_eps must be a number, got \"x\""));
  EXPECT_THAT(config_error("initializer_range", -0.02),
              HasSubstr("initializer_range must be >= 0"));
  EXPECT_THAT(config_error("hidden_size", 0), HasSubstr("hidden_size must be a whole number"));
  EXPECT_THAT(config_error("hidden_size", -32), HasSubstr("got -32"));
  EXPECT_THAT(config_error("hidden_size", 1 << 22),
              HasSubstr("hidden_size must be a whole number from 1 to 1048576, got 4194304"));
  EXPECT_THAT(config_error("vocab_size", -61), HasSubstr("vocab_size must be a whole number"));
  EXPECT_THAT(config_error("vocab_size", 62), HasSubstr("[61, 32] instead of [62, 32]"));
  EXPECT_THAT(config_error("max_position_embeddings", 0), HasSubstr("max_position_embeddings"));
  EXPECT_THAT(config_error("bos_token_id", "1"), HasSubstr("bos_token_id must be a whole number"));
  EXPECT_THAT(config_error("tie_word_embeddings", "yes"), HasSubstr("tie_word_embeddings must be"));
  write_file(hf_ / "config.json", "{\"model_type\": ");
  EXPECT_THAT(import_error(), HasSubstr("config.json: it is not a JSON object"));
  fs::remove(hf_ / "config.json");
  EXPECT_THAT(import_error(), HasSubstr("it has no config.json"));
}

TEST_F(HuggingFace, MissingExtraAndMisshapedTensorsAreNamed) {
  weights_.remove("model.layers.1.mlp.up_proj.weight");
  weights_.remove("model.norm.weight");
  weights_.add("model.norm.weight", {31}, std::vector<float>(31));
  weights_.add("model.layers.0.self_attn.q_proj.bias", {32}, std::vector<float>(32));
  write_single();
  EXPECT_THAT(import_error(),
              AllOf(HasSubstr("missing: model.layers.1.mlp.up_proj.weight"),
                    HasSubstr("model.norm.weight [31] instead of [32]"),
                    HasSubstr("not part of the model: model.layers.0.self_attn.q_proj.bias")));
  EXPECT_FALSE(fs::exists(dir_ / "imported"));
}

TEST_F(HuggingFace, WeightsThatAreNotFiniteAreRefused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      use("gqa");
      const auto norm =
          std::ranges::find(weights_.entries, "model.norm.weight", &tensor::SafetensorsEntry::name);
      std::vector<float>& values =
          weights_.values[static_cast<size_t>(norm - weights_.entries.begin())];
      values[3] = values[9] = bad;
      write_single(dtype);
      EXPECT_THAT(import_error(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("2 of 32"),
                                        HasSubstr(fmt::format("{} at place 3", bad))));
    }
  }
  EXPECT_FALSE(fs::exists(dir_ / "imported"));
}

TEST_F(HuggingFace, TensorsOfOtherTypesAndEmptyOnesAreRefused) {
  weights_.remove("model.norm.weight");
  weights_.add("model.norm.weight", {0}, {});
  write_single();
  EXPECT_THAT(import_error(), HasSubstr("model.norm.weight [0] instead of [32]"));
  use("gqa");
  write_single();
  const fs::path file = hf_ / "model.safetensors";
  const std::string whole = read_text_file(file);
  for (const auto& [type, message] : {std::pair{"I32", "dtype I32, a floating-point type expected"},
                                      std::pair{"F64", "dtype F64 is not one of"}}) {
    std::string altered = whole;
    altered.replace(altered.find("\"F32\""), 5, fmt::format("\"{}\"", type));
    write_file(file, altered);
    EXPECT_THAT(import_error(), HasSubstr(message));
  }
}

// What stands before a text is the same in a run, in its export and in what is imported from that.
TEST_F(HuggingFace, TextsBeginAsTheFolderSays) {
  std::string text = "the quick brown fox jumps over the lazy dog";
  int lines = 0;
  const auto next = [&]() -> const std::string* { return lines++ < 50 ? &text : nullptr; };
  const std::string model = data::train_sentencepiece(next, {.type = "bpe", .size = 290});
  use_vocabulary_of(290);
  write_single();
  write_file(hf_ / "tokenizer.model", model);
  const auto begin = [&](const std::string& tokenizer_config) {
    fs::remove(hf_ / "tokenizer_config.json");
    if (!tokenizer_config.empty()) write_file(hf_ / "tokenizer_config.json", tokenizer_config);
    for (const char* folder : {"imported", "exported"}) fs::remove_all(dir_ / folder);
    import_hf(hf_, dir_ / "imported");
    export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
    const int32_t token = load_model(hf_).begin;
    EXPECT_EQ(load_model(dir_ / "imported").begin, token) << tokenizer_config;
    EXPECT_EQ(load_model(dir_ / "exported").begin, token) << tokenizer_config;
    return token;
  };
  EXPECT_EQ(begin(""), 1) << "transformers puts BOS where nothing is said";
  EXPECT_EQ(begin(R"({"add_bos_token": true, "bos_token": "<s>"})"), 1);
  EXPECT_EQ(begin(R"({"add_bos_token": false, "bos_token": "<s>"})"), -1);
  EXPECT_EQ(begin(R"({"add_bos_token": null, "bos_token": {"content": "</s>"}})"), 2);
  config_["bos_token_id"] = 2;
  write_config();
  EXPECT_EQ(begin(R"({"bos_token": null})"), 2);
  EXPECT_THAT(error_of([&] { begin(R"({"add_bos_token": 1})"); }),
              AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("add_bos_token must be true")));
}

TEST_F(HuggingFace, RotaryBuffersAndATiedHeadAreNotExtra) {
  use("tied");
  weights_.add("model.layers.0.self_attn.rotary_emb.inv_freq", {4}, std::vector<float>(4));
  const auto embedding = golden_->read_f32("model.embed_tokens.weight");
  weights_.add("lm_head.weight", {61, 32}, embedding);
  write_single();
  EXPECT_EQ(load_model(hf_).layout->size(), 20u);
  weights_.values.back()[7] += 1;
  write_single();
  EXPECT_THAT(import_error(), HasSubstr("lm_head.weight differs from model.embed_tokens.weight"));
}

TEST_F(HuggingFace, DamagedShardsAndIndexAreNamed) {
  EXPECT_THAT((write_config(), import_error()), HasSubstr("has neither model.safetensors nor"));
  write_sharded();
  const fs::path index = hf_ / "model.safetensors.index.json";
  const json whole = json::parse(read_text_file(index));
  json altered = whole;
  altered["weight_map"]["model.norm.weight"] = "../model.safetensors";
  write_file(index, altered.dump());
  EXPECT_THAT(import_error(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("not a file name")));
  altered["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors";
  write_file(index, altered.dump());
  EXPECT_THAT(import_error(), HasSubstr("no tensor model.norm.weight"));
  write_file(index, "[]");
  EXPECT_THAT(import_error(), HasSubstr("no object weight_map"));
  write_file(index, whole.dump());
  const fs::path shard = hf_ / "model-00002-of-00002.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THAT(import_error(), AllOf(HasSubstr(shard.string()), HasSubstr("truncated")));
  fs::remove(shard);
  EXPECT_THAT(import_error(), AllOf(HasSubstr(shard.string()), HasSubstr("is missing")));
}

TEST_F(HuggingFace, ByteVocabularyIsCarriedAndExplained) {
  use_vocabulary_of(258);
  write_single();
  write_file(hf_ / data::kByteFile, data::byte_vocabulary_json());
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"), IsEmpty());
  EXPECT_EQ(load_model(dir_ / "imported").vocabulary->eos(), 256);
  EXPECT_THAT(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32),
              ElementsAre(HasSubstr("no tokenizer.model")));
  EXPECT_TRUE(fs::exists(dir_ / "exported" / data::kByteFile));
  const json exported = json::parse(read_text_file(dir_ / "exported/config.json"));
  EXPECT_EQ(exported["eos_token_id"], 256);
  EXPECT_EQ(exported["bos_token_id"], 257);
}

TEST_F(HuggingFace, SentencePieceModelIsCarriedBothWays) {
  std::string text = "the quick brown fox jumps over the lazy dog";
  int lines = 0;
  const auto next = [&]() -> const std::string* { return lines++ < 50 ? &text : nullptr; };
  const std::string model = data::train_sentencepiece(next, {.type = "bpe", .size = 290});
  config_["vocab_size"] = 61;
  write_single();
  write_file(hf_ / "tokenizer.model", model);
  EXPECT_THAT(import_error(), AllOf(HasSubstr("tokenizer.model has 290 pieces"),
                                    HasSubstr("vocab_size"), HasSubstr("at most 61")));

  use_vocabulary_of(300);  // padded beyond the pieces
  write_single();
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"),
              ElementsAre(AllOf(HasSubstr("290 pieces"), HasSubstr("the last 10"))));
  EXPECT_EQ(read_text_file(dir_ / "imported" / data::kSentencePieceFile), model);
  EXPECT_THAT(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32), IsEmpty());
  EXPECT_EQ(read_text_file(dir_ / "exported/tokenizer.model"), model);
  const json tokenizer = json::parse(read_text_file(dir_ / "exported/tokenizer_config.json"));
  EXPECT_EQ(tokenizer["tokenizer_class"], "LlamaTokenizer");
  const json generation = json::parse(read_text_file(dir_ / "exported/generation_config.json"));
  EXPECT_EQ(generation["eos_token_id"], 2);
}

TEST_F(HuggingFace, ExistingFoldersAreNotOverwritten) {
  write_single();
  fs::create_directories(dir_ / "empty");
  import_hf(hf_, dir_ / "empty");
  EXPECT_THAT(error_of([&] { import_hf(hf_, dir_ / "empty"); }), HasSubstr("exists already"));
  EXPECT_THAT(error_of([&] { export_hf(hf_, dir_ / "empty", DType::kF32); }),
              HasSubstr("exists already"));
}

TEST_F(HuggingFace, AFolderWithoutAModelIsNamed) {
  EXPECT_THAT(error_of([&] { load_model(dir_); }),
              AllOf(HasSubstr(dir_.string()), HasSubstr("holds no model")));
}

TEST_F(HuggingFace, ARunFolderMeansItsNewestCheckpoint) {
  write_single();
  const LoadedModel loaded = load_model(hf_);
  import_hf(hf_, dir_ / "imported");
  for (const uint64_t step : {10, 20}) {
    loaded.params->all().front() = static_cast<float>(step);
    write_checkpoint(step, loaded, {});
  }
  EXPECT_EQ(load_model(dir_ / "run").params->all().front(), 20);
  EXPECT_EQ(load_model(dir_ / "run/checkpoints/step-00000010").params->all().front(), 10);
}

// Documents follow EOS in training, and no BOS is ever seen there.
TEST_F(HuggingFace, TextsOfTrainedModelsBeginWithTheEndOfTheOneBefore) {
  use_vocabulary_of(258);
  write_single();
  import_hf(hf_, dir_ / "imported");
  write_checkpoint(10, load_model(hf_), data::byte_vocabulary_json());
  export_hf(dir_ / "run", dir_ / "exported", DType::kF32);
  import_hf(dir_ / "exported", dir_ / "again");
  for (const char* folder : {"run", "exported", "again"}) {
    EXPECT_EQ(load_model(dir_ / folder).begin, 256) << folder;
  }
  const json exported = json::parse(read_text_file(dir_ / "exported/config.json"));
  EXPECT_EQ(exported["bos_token_id"], 256);
}

TEST_F(HuggingFace, AnImportTellsHowFarItsReadingAndItsWritingAre) {
  write_single();
  std::vector<size_t> read;
  std::vector<size_t> written;
  size_t tensors = 0;
  import_hf(
      hf_, dir_ / "imported",
      [&](size_t done, size_t all) {
        EXPECT_TRUE(written.empty());
        read.push_back(done);
        tensors = all;
      },
      [&](size_t done, size_t) { written.push_back(done); });
  ASSERT_EQ(read.size(), tensors + 1);
  EXPECT_EQ(read.back(), tensors);
  EXPECT_EQ(written, read);
}

TEST_F(HuggingFace, WhatIsInterruptedLeavesNothing) {
  write_single();
  const auto interrupt = [](size_t done, size_t all) {
    EXPECT_LT(done, all);
    if (done == 2) throw Error("interrupted");
  };
  EXPECT_THROW(import_hf(hf_, dir_ / "imported", interrupt), Error);
  EXPECT_THROW(import_hf(hf_, dir_ / "imported", {}, interrupt), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 1) << "the source alone";
  import_hf(hf_, dir_ / "imported");
  EXPECT_THROW(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32, interrupt), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), {}), 2);
}

}  // namespace
}  // namespace thinwire::convert
