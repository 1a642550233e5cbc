// Hugging Face folders that cannot be imported, and the messages.
#include <algorithm>
#include <limits>

#include "tests/convert/hf_fixture.h"
#include "thinwire/base/json.h"

namespace thinwire::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HuggingFaceRefusals : public HuggingFace {};

TEST_F(HuggingFaceRefusals, WhatTheModelLacksIsRefusedByName) {
  write_single();
  EXPECT_THAT(config_error("model_type", "gpt2"),
              AllOf(HasSubstr("config.json"), HasSubstr("model_type is \"gpt2\""),
                    HasSubstr("only \"llama\", \"mistral\", \"qwen2\"")));
  EXPECT_THAT(config_error("attention_bias", true),
              HasSubstr("missing: model.layers.0.self_attn.q_proj.bias"));
  EXPECT_THAT(config_error("mlp_bias", true),
              HasSubstr("missing: model.layers.0.mlp.gate_proj.bias"));
  EXPECT_THAT(config_error("hidden_act", "gelu"), HasSubstr("hidden_act is \"gelu\""));
  EXPECT_THAT(config_error("head_dim", 16),
              HasSubstr("q_proj.weight [32, 32] instead of [64, 32]"));
  EXPECT_THAT(config_error("quantization_config", json::object()),
              HasSubstr("quantization_config"));
  EXPECT_THAT(config_error("partial_rotary_factor", 0.5), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(config_error("attention_dropout", 0.1), HasSubstr("attention_dropout is 0.1"));
  EXPECT_THAT(config_error("rope_interleaved", true), HasSubstr("rope_interleaved is true"));
  EXPECT_THAT(config_error("pruned_heads", {{"0", {1}}}), HasSubstr("pruned_heads is"));
}

TEST_F(HuggingFaceRefusals, AFieldThatIsNotUnderstoodIsNamed) {
  write_single();
  EXPECT_THAT(config_error("residual_multiplier", 0.22),
              HasSubstr("residual_multiplier = 0.22 is not understood"));
  EXPECT_THAT(config_error("sliding_window", 5), HasSubstr("sliding_window = 5 is not understood"));
  EXPECT_THAT(config_error("rope_scaling", {{"rope_type", "default"}, {"factor", 2.0}}),
              HasSubstr("rope_scaling.factor = 2.0 is not understood"));
  config_["transformers_version"] = "4.57.0";
  config_["residual_multiplier"] = nullptr;
  write_config();
  EXPECT_EQ(import_error(), tests::kNoError);
}

TEST_F(HuggingFaceRefusals, ScaledPositionsThatMakeNoSenseAreNamed) {
  write_single();
  const json llama3 = {{"rope_type", "llama3"},
                       {"factor", 8.0},
                       {"low_freq_factor", 1.0},
                       {"high_freq_factor", 4.0},
                       {"original_max_position_embeddings", 32}};
  const auto error = [&](json rope, const char* field, const json& value) {
    rope[field] = value;
    return config_error("rope_scaling", rope);
  };
  EXPECT_THAT(config_error("rope_scaling", {{"type", "longrope"}}),
              HasSubstr("rope_type is \"longrope\""));
  EXPECT_THAT(config_error("rope_parameters", {{"rope_type", "none"}}),
              HasSubstr("rope_type is \"none\""));
  EXPECT_THAT(
      config_error("rope_scaling", {{"type", "linear"}}),
      HasSubstr("factor of scaled rotary positions must be >= 1 and <= 16777216, got none"));
  EXPECT_THAT(error(llama3, "factor", 0.5), HasSubstr("must be >= 1 and <= 16777216, got 0.5"));
  EXPECT_THAT(error(llama3, "factor", "8"), HasSubstr("rope_scaling.factor must be a number"));
  EXPECT_THAT(error(llama3, "low_freq_factor", nullptr), HasSubstr("low_freq_factor of llama3"));
  EXPECT_THAT(error(llama3, "high_freq_factor", 1.0),
              HasSubstr("high_freq_factor must be > low_freq_factor > 0, got 1 and 1"));
  EXPECT_THAT(error(llama3, "original_max_position_embeddings", 0),
              HasSubstr("rope_scaling.original_max_position_embeddings must be a whole number"));
  EXPECT_THAT(config_error("rope_scaling", 3), HasSubstr("rope_scaling must be an object"));
  EXPECT_THAT(error({{"type", "yarn"}, {"factor", 2.0}}, "beta_fast", 0.5),
              HasSubstr("beta_fast of yarn must be > beta_slow, got 0.5 and 1"));
  const json yarn = {{"type", "yarn"}, {"factor", 2.0}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}};
  EXPECT_THAT(error(yarn, "factor", 1e300), HasSubstr("<= 16777216, got 1e+300"));
  EXPECT_THAT(error(yarn, "attention_factor", 1e300), HasSubstr("attention_factor of yarn must"));
  EXPECT_THAT(error(yarn, "attention_factor", 0), HasSubstr("must be > 0 and <= 16777216, got 0"));
  EXPECT_THAT(error(yarn, "mscale", 1e300), HasSubstr("mscale and mscale_all_dim give of yarn"));
  config_["rope_scaling"] = {{"type", "linear"}, {"factor", 2.0}};
  config_["rope_parameters"] = llama3;
  write_config();
  EXPECT_THAT(import_error(), HasSubstr("rope_scaling and rope_parameters contradict"));
  config_.erase("rope_scaling");
  config_["rope_theta"] = 20000.0;
  config_["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 30000.0}};
  write_config();
  EXPECT_THAT(import_error(), HasSubstr("rope_theta is 20000 beside and 30000 within"));
}

TEST_F(HuggingFaceRefusals, WindowsThatMakeNoSenseAreNamed) {
  write_single();
  config_["model_type"] = "mistral";
  EXPECT_THAT(config_error("attention_bias", true), HasSubstr("attention_bias is true"));
  EXPECT_THAT(config_error("sliding_window", 0),
              HasSubstr("sliding_window must be a whole number from 1"));
  EXPECT_THAT(config_error("sliding_window", -3), HasSubstr("got -3"));
  EXPECT_THAT(config_error("head_dim", 7), HasSubstr("head_dim must be even, got 7"));
  config_["model_type"] = "qwen3";
  EXPECT_THAT(config_error("max_window_layers", 1.5),
              HasSubstr("max_window_layers must be a whole number from 0"));
}

TEST_F(HuggingFaceRefusals, WrongConfigurationFieldsAreNamed) {
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

TEST_F(HuggingFaceRefusals, MissingExtraAndMisshapedTensorsAreNamed) {
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

TEST_F(HuggingFaceRefusals, WeightsThatAreNotFiniteAreRefused) {
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
                                        HasSubstr(fmt::format("{} at index 3", bad))));
    }
  }
  EXPECT_FALSE(fs::exists(dir_ / "imported"));
}

TEST_F(HuggingFaceRefusals, TensorsOfOtherTypesAndEmptyOnesAreRefused) {
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

TEST_F(HuggingFaceRefusals, RotaryBuffersAndATiedHeadAreNotExtra) {
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

TEST_F(HuggingFaceRefusals, DamagedShardsAndIndexAreNamed) {
  EXPECT_THAT((write_config(), import_error()), HasSubstr("has neither model.safetensors nor"));
  write_sharded();
  const fs::path index = hf_ / "model.safetensors.index.json";
  const json whole = parse_json<json>(read_text_file(index));
  json altered = whole;
  altered["weight_map"]["model.norm.weight"] = "../model.safetensors";
  write_file(index, print_json(altered));
  EXPECT_THAT(import_error(), AllOf(HasSubstr("model.norm.weight"), HasSubstr("not a file name")));
  altered["weight_map"]["model.norm.weight"] = "model-00001-of-00002.safetensors";
  write_file(index, print_json(altered));
  EXPECT_THAT(import_error(), HasSubstr("no tensor model.norm.weight"));
  write_file(index, "[]");
  EXPECT_THAT(import_error(), HasSubstr("no object weight_map"));
  write_file(index, print_json(whole));
  const fs::path shard = hf_ / "model-00002-of-00002.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 1);
  EXPECT_THAT(import_error(), AllOf(HasSubstr(shard.string()), HasSubstr("truncated")));
  fs::remove(shard);
  EXPECT_THAT(import_error(), AllOf(HasSubstr(shard.string()), HasSubstr("is missing")));
}

TEST_F(HuggingFaceRefusals, WhatStandsForAFileElsewhereIsNamed) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n";
  write_config();
  write_file(hf_ / "model.safetensors", pointer);
  EXPECT_THAT(import_error(), HasSubstr("model.safetensors: it is a git-lfs pointer"));
  for (const char* name : {"model.safetensors", "tokenizer.model", "config.json"}) {
    write_single();
    fs::remove(hf_ / name);
    fs::create_symlink("../blobs/4d7a", hf_ / name);
    EXPECT_THAT(import_error(), HasSubstr(std::string(name) +
                                          ": it is a link to ../blobs/4d7a, which does not exist"));
    EXPECT_THAT(error_of([&] { load_model(hf_); }), HasSubstr("is a link to"));
    fs::remove(hf_ / name);
  }
}

TEST_F(HuggingFaceRefusals, ExistingFoldersAreNotOverwritten) {
  write_single();
  fs::create_directories(dir_ / "empty");
  import_hf(hf_, dir_ / "empty");
  EXPECT_THAT(error_of([&] { import_hf(hf_, dir_ / "empty"); }), HasSubstr("exists already"));
  EXPECT_THAT(error_of([&] { export_hf(hf_, dir_ / "empty", DType::kF32); }),
              HasSubstr("exists already"));
}

TEST_F(HuggingFaceRefusals, AFolderWithoutAModelIsNamed) {
  EXPECT_THAT(error_of([&] { load_model(dir_); }),
              AllOf(HasSubstr(dir_.string()), HasSubstr("holds no model: expected a run folder")));
  EXPECT_THAT(error_of([&] { load_model(dir_ / "none"); }),
              HasSubstr("none holds no model: there is no such folder; expected a run folder"));
}

TEST_F(HuggingFaceRefusals, ARunWithoutACheckpointIsToldWhenThereIsOne) {
  write_file(dir_ / "begun/recipe.toml", "");
  EXPECT_THAT(error_of([&] { load_model(dir_ / "begun"); }),
              HasSubstr("begun holds no model: its run has written no checkpoint yet"));
  fs::create_directories(dir_ / "joined/member");
  EXPECT_THAT(error_of([&] { load_model(dir_ / "joined"); }), HasSubstr("no checkpoint yet"));
  fs::create_directories(dir_ / "served/server");
  EXPECT_THAT(error_of([&] { load_model(dir_ / "served"); }),
              HasSubstr("it is the coordinator's, of `thinwire serve`; the folders of members"));
}

}  // namespace
}  // namespace thinwire::convert
