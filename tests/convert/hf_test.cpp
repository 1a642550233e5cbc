#include "thinwire/convert/hf.h"

#include <algorithm>

#include "tests/convert/hf_fixture.h"
#include "thinwire/base/bf16.h"
#include "thinwire/base/bytes.h"
#include "thinwire/base/half.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/convert/hf_tokenizer_json.h"
#include "thinwire/method/architectures/llama.h"
#include "thinwire/model/registry.h"

namespace thinwire::convert {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

// The token before a text is the same in a run, in its export and in a model imported from that.
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

TEST_F(HuggingFace, ByteVocabularyIsCarriedAndExplained) {
  use_vocabulary_of(258);
  write_single();
  write_file(hf_ / data::kByteFile, data::byte_vocabulary_json());
  EXPECT_THAT(import_hf(hf_, dir_ / "imported"), IsEmpty());
  EXPECT_EQ(load_model(dir_ / "imported").vocabulary->eos(), 256);
  EXPECT_THAT(export_hf(dir_ / "imported", dir_ / "exported", DType::kF32),
              ElementsAre(HasSubstr("no tokenizer.model")));
  EXPECT_TRUE(fs::exists(dir_ / "exported" / data::kByteFile));
  const json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
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
  const json tokenizer = parse_json<json>(read_text_file(dir_ / "exported/tokenizer_config.json"));
  EXPECT_EQ(tokenizer["tokenizer_class"], "PreTrainedTokenizerFast");
  const json pieces = parse_json<json>(read_text_file(dir_ / "exported/tokenizer.json"));
  EXPECT_EQ(pieces["model"]["type"], "BPE");
  EXPECT_EQ(pieces["model"]["vocab"].size(), 290);
  EXPECT_EQ(pieces["added_tokens"].size(), 3) << "unk, bos, eos";
  EXPECT_EQ(pieces["post_processor"]["pair"].size(), 4) << "<s> text <s> text";
  const auto vocabulary = data::Vocabulary::load(dir_ / "imported");
  const HfJson by_eos = print_post_processor(*vocabulary, vocabulary->eos());
  EXPECT_EQ(by_eos["pair"].size(), 3) << "</s> text text: another </s> would be a separator";
  const json generation =
      parse_json<json>(read_text_file(dir_ / "exported/generation_config.json"));
  EXPECT_EQ(generation["eos_token_id"], 2);
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
  writer.add_text(kOriginFile, origin_text_of(dir_ / "imported"));
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
  const json exported = parse_json<json>(read_text_file(dir_ / "exported/config.json"));
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
