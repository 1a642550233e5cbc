#include "thinwire/convert/hf.h"

#include <algorithm>

#include "tests/convert/hf_fixture.h"
#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/half.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/model/registry.h"

namespace thinwire::convert {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  const json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
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
  EXPECT_EQ(parse_json<json>(read_text_file(dir_ / "exported/config.json"))["torch_dtype"],
            "bfloat16");
}

TEST_F(HuggingFace, TheNumberFormatComesBackUnlessAWeightNeedsMore) {
  const auto exported_format = [&](const std::string& name) {
    import_hf(hf_, dir_ / name);
    export_hf(dir_ / name, dir_ / "exported" / name, std::nullopt);
    return SafetensorsReader(dir_ / "exported" / name / "model.safetensors")
        .find("model.norm.weight")
        .dtype;
  };
  const auto exported_name = [&](const std::string& name) {
    return parse_json<json>(read_text_file(dir_ / "exported" / name / "config.json"))
        .at("torch_dtype");
  };
  struct Format {
    DType dtype;
    std::string name;
    float (*round)(float);
    std::vector<float> beyond;  // numbers that it does not have
  };
  const std::vector<float> coarse = {0x1p-24F, -0x1p-24F, 0x1.8p-15F, 65504.0F};
  for (const Format& format :
       {Format{DType::kBf16, "bfloat16", round_to_bf16, {1.0F + 0x1p-20F, 65504.0F}},
        Format{DType::kF16, "float16", round_to_half, {1.0F + 0x1p-20F, 65520.0F, 0x1p-25F}}}) {
    use("gqa");
    for (auto& values : weights_.values) {
      for (float& value : values) value = format.round(value);
    }
    std::ranges::transform(coarse, weights_.values.back().begin(), format.round);
    config_["torch_dtype"] = format.name;
    write_single(format.dtype);
    EXPECT_EQ(exported_format(format.name), format.dtype);
    EXPECT_EQ(exported_name(format.name), format.name);
    expect_same_weights(dir_ / "exported" / format.name);
    for (const float value : format.beyond) {
      const std::string finer = fmt::format("{}_{}", format.name, value);
      weights_.values.back().back() = value;
      write_single(DType::kF32);
      EXPECT_EQ(exported_format(finer), DType::kF32);
      EXPECT_EQ(exported_name(finer), "float32");
    }
  }
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
  const auto& llama = loaded.model.options<method::LlamaOptions>();
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.rope.theta, 10000);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  EXPECT_FALSE(loaded.model.tied);
  EXPECT_EQ(loaded.sequence, 2048);
}

TEST_F(HuggingFace, RopeThetaIsReadFromEitherPlace) {
  config_.erase("rope_theta");
  config_["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 12345.0}};
  write_single();
  EXPECT_EQ(load_model(hf_).model.options<method::LlamaOptions>().rope.theta, 12345);
}

TEST_F(HuggingFace, WeightsAreKeptInBf16OnRequestAndWhereThatChangesNone) {
  use("untied");
  write_single();
  LoadedModel loaded = load_model(hf_);
  const std::vector<float> before(loaded.params->all().begin(), loaded.params->all().end());
  choose_weights(loaded, DecodingWeights::kAuto);
  EXPECT_EQ(loaded.params->format(), WeightFormat::kF32);
  choose_weights(loaded, DecodingWeights::kBf16);
  EXPECT_EQ(loaded.params->format(), WeightFormat::kBf16);

  LoadedModel rounded = load_model(hf_);
  loaded.params->read(0, rounded.params->all());
  const std::vector<float> values(rounded.params->all().begin(), rounded.params->all().end());
  EXPECT_NE(values, before);
  choose_weights(rounded, DecodingWeights::kF32);
  EXPECT_EQ(rounded.params->format(), WeightFormat::kF32);
  choose_weights(rounded, DecodingWeights::kAuto);
  ASSERT_EQ(rounded.params->format(), WeightFormat::kBf16);
  std::vector<float> kept(values.size());
  rounded.params->read(0, kept);
  EXPECT_EQ(kept, values);
}

TEST_F(HuggingFace, ATiedModelMayHaveOnlyItsHead) {
  use("tied");
  for (auto& entry : weights_.entries) {
    if (entry.name == "model.embed_tokens.weight") entry.name = "lm_head.weight";
  }
  write_single();
  const auto named = std::ranges::find(weights_.entries, std::string("lm_head.weight"),
                                       &tensor::SafetensorsEntry::name);
  const auto& values = weights_.values[static_cast<size_t>(named - weights_.entries.begin())];
  const LoadedModel loaded = load_model(hf_);
  const auto read = loaded.params->tensor(loaded.layout->find("model.embed_tokens.weight"));
  EXPECT_THAT(std::vector<float>(read.begin(), read.end()), testing::ElementsAreArray(values));
  config_["tie_word_embeddings"] = false;
  write_single();
  EXPECT_THAT(import_error(), HasSubstr("model.embed_tokens.weight"));
}

// What config.json and its neighbours say beyond what Thinwire's models have, nobody trains.
TEST_F(HuggingFace, AnExportGivesBackTheDescriptionThatCameIn) {
  config_["max_position_embeddings"] = 4096;
  config_["eos_token_id"] = {2, 5};
  config_["pad_token_id"] = 3;
  config_["initializer_range"] = 0.05;
  config_["hidden_act"] = "swish";
  config_["torch_dtype"] = "float16";
  config_["pretraining_tp"] = 1;
  write_single();
  const std::string sampling = R"({"temperature": 0.6, "eos_token_id": [2, 5]})";
  write_file(hf_ / "generation_config.json", sampling);
  write_file(hf_ / "README.md", "# A model\n");
  write_file(hf_ / "chat_template.jinja", "{{ messages }}");
  import_hf(hf_, dir_ / "imported");
  std::string recipe = read_text_file(dir_ / "imported" / checkpoint::kRecipeFile);
  recipe.replace(recipe.find("sequence = 4096"), 15, "sequence = 32");
  checkpoint::CheckpointWriter writer(dir_ / "run/checkpoints", 10);  // trained on shorter rows
  writer.write_weights(*load_model(hf_).params);
  writer.add_text(checkpoint::kRecipeFile, recipe);
  writer.add_text(kOriginFile, print_origin(origin_of(dir_ / "imported")));
  checkpoint::CheckpointMeta meta;
  meta.step = 10;
  writer.commit(meta, 2);

  export_hf(dir_ / "run", dir_ / "exported", DType::kF32);
  json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
  EXPECT_EQ(exported["torch_dtype"], "float32");
  exported["torch_dtype"] = "float16";
  for (const auto& [field, value] : config_.items()) EXPECT_EQ(exported[field], value) << field;
  EXPECT_EQ(parse_json<json>(read_text_file(dir_ / "exported/generation_config.json")),
            parse_json<json>(sampling));
  EXPECT_EQ(read_text_file(dir_ / "exported/README.md"), "# A model\n");
  EXPECT_EQ(read_text_file(dir_ / "exported/chat_template.jinja"), "{{ messages }}");
}

TEST_F(HuggingFace, AMistralsWindowIsWhatItsFileSaysOrLeavesOut) {
  config_["model_type"] = "mistral";
  config_["architectures"] = {"MistralForCausalLM"};
  const auto window = [&] {
    write_single();
    return load_model(hf_).model.options<method::LlamaOptions>().window;
  };
  EXPECT_EQ(window(), 4096);
  config_["sliding_window"] = 7;
  EXPECT_EQ(window(), 7);
  config_["sliding_window"] = nullptr;
  EXPECT_EQ(window(), 0);
  import_hf(hf_, dir_ / "imported");
  expect_same_weights(dir_ / "imported");
  export_hf(dir_ / "imported", dir_ / "exported", DType::kF32);
  const json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
  EXPECT_EQ(exported["model_type"], "mistral");
  for (const auto& [name, value] : config_.items()) {
    if (name != "torch_dtype" && !name.ends_with("_token_id")) {
      EXPECT_EQ(exported[name], value) << name;
    }
  }
}

TEST_F(HuggingFace, AQwensWindowIsThatOfItsLayers) {
  config_["model_type"] = "qwen3";
  const auto windows = [&](const json& layer_types, bool use = true) {
    json config = config_;
    config["use_sliding_window"] = use;
    config["sliding_window"] = 5;
    config["max_window_layers"] = 1;
    if (!layer_types.is_null()) config["layer_types"] = layer_types;
    const auto model = parse_hf_config(print_json(config), "config.json").model;
    const auto& llama = model.options<method::LlamaOptions>();
    return std::vector{llama.window_of(0), llama.window_of(1)};
  };
  const char* const kFull = "full_attention";
  const char* const kSliding = "sliding_attention";
  EXPECT_THAT(windows(nullptr), ElementsAre(0, 5));
  EXPECT_THAT(windows(nullptr, false), ElementsAre(0, 0));
  EXPECT_THAT(windows({kSliding, kSliding}), ElementsAre(5, 5));
  EXPECT_THAT(windows({kFull, kFull}), ElementsAre(0, 0));
  EXPECT_THAT(error_of([&] {
                windows({kSliding, kFull});
              }),
              HasSubstr("layer_types must be \"full_attention\", then \"sliding_attention\""));
  EXPECT_THAT(error_of([&] {
                windows({kSliding, kSliding}, false);
              }),
              HasSubstr("layer_types names sliding_attention"));
  EXPECT_THAT(error_of([&] { windows({kFull}); }),
              HasSubstr("layer_types must list num_hidden_layers = 2 types"));
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
  EXPECT_EQ(load_model(dir_ / "run/checkpoints").params->all().front(), 20);
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
