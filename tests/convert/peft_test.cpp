// PEFT folders, against the trace of an independent LoRA (tests/golden/make_lora.py): which ones
// are read, and the messages for those that are not.
#include "thinwire/convert/peft.h"

#include "tests/convert/hf_fixture.h"
#include "tests/file_size_limit.h"
#include "thinwire/base/json.h"
#include "thinwire/checkpoint/adapter_base.h"

namespace thinwire::convert {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Peft : public HuggingFace {
 protected:
  void SetUp() override {
    HuggingFace::SetUp();
    write_single();
    for (const std::string& name : trace_.names()) {
      const std::string prefix = "after.5.";
      if (!name.starts_with(prefix)) continue;
      factors_.add("base_model.model." + name.substr(prefix.size()), trace_.find(name).shape,
                   trace_.read_f32(name));
    }
    fs::remove_all(peft_);  // of the test before
    fields_ = {{"peft_type", "LORA"},       {"r", 3},
               {"lora_alpha", 6},           {"bias", "none"},
               {"use_dora", false},         {"rank_pattern", json::object()},
               {"init_lora_weights", true}, {"base_model_name_or_path", hf_.string()}};
  }
  void write_peft() const {
    fs::create_directories(peft_);
    factors_.write(peft_ / "adapter_model.safetensors", 0, factors_.entries.size(), DType::kF32);
    write_file(peft_ / "adapter_config.json", print_json(fields_));
  }
  std::string error_with(const std::string& field, const json& value) const {
    json changed = fields_;
    changed[field] = value;
    write_peft();
    write_file(peft_ / "adapter_config.json", print_json(changed));
    return load_error();
  }
  std::string load_error(const fs::path& base = {}) const {
    return error_of([&] { load_model(peft_, base); });
  }
  // Largest difference of the matrices with factors from those of the trace.
  double difference(const LoadedModel& loaded) const {
    double worst = 0;
    for (const std::string& name : trace_.names()) {
      if (!name.starts_with("merged.")) continue;
      const auto expected = trace_.read_f32(name);
      const auto got = std::as_const(*loaded.params).tensor(loaded.layout->find(name.substr(7)));
      for (size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::abs(double{got[i]} - expected[i]));
      }
    }
    return worst;
  }

  SafetensorsReader trace_{tests::source_file("tests/golden/lora.safetensors")};
  Weights factors_;
  json fields_;
  fs::path peft_ = fs::path(testing::TempDir()) / "peft_folder";
};

TEST_F(Peft, FoldersAreMergedWithTheirBase) {
  write_peft();
  const LoadedModel loaded = load_model(peft_);
  EXPECT_LT(difference(loaded), 1e-5);
  const auto norm = std::as_const(*loaded.params).tensor(loaded.layout->find("model.norm.weight"));
  EXPECT_THAT(std::vector<float>(norm.begin(), norm.end()),
              testing::ElementsAreArray(trace_.read_f32("after.5.model.norm.weight")));
  EXPECT_EQ(describe_model(peft_).model.hidden, 32);
}

TEST_F(Peft, RankStabilizedScaleIsRead) {
  fields_["use_rslora"] = true;
  fields_["lora_alpha"] = 2 * std::sqrt(3.0);  // alpha / sqrt(r) = 2, as in the trace
  write_peft();
  EXPECT_LT(difference(load_model(peft_)), 1e-5);
}

TEST_F(Peft, BaseMayBeElsewhere) {
  fields_["base_model_name_or_path"] = "nobody/nothing";
  write_peft();
  EXPECT_THAT(load_error(), AllOf(HasSubstr("\"nobody/nothing\" (base_model_name_or_path)"),
                                  HasSubstr("--base")));
  EXPECT_LT(difference(load_model(peft_, hf_)), 1e-5);
  EXPECT_THAT(load_error(dir_ / "nowhere"), HasSubstr("nowhere holds no model"));
}

TEST_F(Peft, ImportMergesThem) {
  write_peft();
  import_hf(peft_, dir_ / "imported");
  EXPECT_LT(difference(load_model(dir_ / "imported")), 1e-5);
}

TEST_F(Peft, VariantsThatComputeSomethingElseAreRefusedByName) {
  EXPECT_THAT(error_with("peft_type", "IA3"), HasSubstr("peft_type must be \"LORA\", got \"IA3\""));
  EXPECT_THAT(error_with("bias", "all"), HasSubstr("bias must be \"none\", got \"all\""));
  EXPECT_THAT(error_with("use_dora", true), HasSubstr("use_dora = true is a variant"));
  EXPECT_THAT(error_with("rank_pattern", {{"q_proj", 8}}), HasSubstr("rank_pattern"));
  EXPECT_THAT(error_with("init_lora_weights", "pissa_niter_4"),
              HasSubstr("changed the weights of the base"));
  EXPECT_THAT(error_with("r", 0), HasSubstr("r must be a whole number from 1"));
  EXPECT_THAT(error_with("lora_alpha", -1), HasSubstr("lora_alpha must be > 0, got -1"));
  write_file(peft_ / "adapter_config.json", "[1]");
  EXPECT_THAT(load_error(), HasSubstr("it is not a JSON object"));
}

TEST_F(Peft, EveryVariantOfPeftIsRefusedByNameUnlessItIsOff) {
  const std::vector<std::pair<std::string, json>> variants = {
      {"use_dora", true},
      {"alora_invocation_tokens", {10, 11}},
      {"use_qalora", true},
      {"use_bdlora", {{"nblocks", 2}}},
      {"arrow_config", {{"top_k", 3}}},
      {"kasa_config", {{"beta", 1e-4}}},
      {"monteclora_config", {{"num_samples", 4}}},
      {"lora_bias", true},
      {"fan_in_fan_out", true},
      {"rank_pattern", {{"q_proj", 8}}},
      {"alpha_pattern", {{"q_proj", 8}}},
      {"target_parameters", {"experts.down_proj"}},
      {"trainable_token_indices", {3}},
      {"layer_replication", {{0, 2}}},
  };
  for (const auto& [field, value] : variants) {
    EXPECT_THAT(error_with(field, value),
                HasSubstr(fmt::format("{} = {} is a variant", field, print_json(value))));
    for (const json& off : {json(nullptr), json(false), json::object(), json::array()}) {
      EXPECT_EQ(error_with(field, off), tests::kNoError) << field;
    }
  }
  EXPECT_THAT(error_with("alora_invocation_tokens", {10}), HasSubstr("activated LoRA"));
}

TEST_F(Peft, AFieldThatIsNotUnderstoodIsNamed) {
  EXPECT_THAT(error_with("gate_scale", 0.5), HasSubstr("gate_scale = 0.5 is not understood"));
  EXPECT_THAT(error_with("use_new_lora", true), HasSubstr("use_new_lora = true is not understood"));
  EXPECT_EQ(error_with("use_new_lora", false), tests::kNoError);
  EXPECT_EQ(error_with("new_lora_config", nullptr), tests::kNoError);
  EXPECT_THAT(error_with("modules_to_save", {1}), HasSubstr("modules_to_save must be a list"));
}

TEST_F(Peft, InitializationsThatChangeTheBaseAreRefused) {
  for (const char* name :
       {"pissa", "pissa_niter_16", "PiSSA", "olora", "loftq", "corda", "lora_ga"}) {
    EXPECT_THAT(error_with("init_lora_weights", name), HasSubstr("changed the weights of the base"))
        << name;
  }
  EXPECT_THAT(error_with("init_lora_weights", "sunny"),
              HasSubstr("init_lora_weights = \"sunny\" is not understood"));
  EXPECT_THAT(error_with("init_lora_weights", 3), HasSubstr("is not understood"));
  for (const json& value : {json(true), json(false), json("gaussian"), json("eva"),
                            json("orthogonal"), json("mica"), json(nullptr)}) {
    EXPECT_EQ(error_with("init_lora_weights", value), tests::kNoError) << value;
  }
}

TEST_F(Peft, FactorsOfAnotherRankAreNamed) {
  EXPECT_THAT(error_with("r", 4),
              AllOf(HasSubstr("base_model.model.model.layers.0.mlp.down_proj.lora_A.weight"),
                    HasSubstr("[3, 88] instead of [4, 88]")));
}

TEST_F(Peft, FactorsOfAnotherModelAreNamed) {
  factors_.add("base_model.model.model.layers.7.self_attn.q_proj.lora_A.weight", {3, 32},
               std::vector<float>(96));
  write_peft();
  EXPECT_THAT(load_error(), AllOf(HasSubstr("not part of the model"), HasSubstr("layers.7")));
}

// A base whose head is its embedding, with what PEFT trains of either in full.
class TiedPeft : public Peft {
 protected:
  static constexpr const char* kEmbedding = "model.embed_tokens.weight";
  static constexpr const char* kHead = "lm_head.weight";

  void SetUp() override {
    Peft::SetUp();
    weights_.remove(kHead);
    config_["tie_word_embeddings"] = true;
    write_single();
  }
  // Adds a tensor with `value` at each place.
  void train(const char* tensor, float value) {
    factors_.add(std::string("base_model.model.") + tensor, {61, 32},
                 std::vector<float>(size_t{61} * 32, value));
  }
  static float first(const LoadedModel& loaded, const char* tensor) {
    return std::as_const(*loaded.params).tensor(loaded.layout->find(tensor))[0];
  }
  float base() const { return first(load_model(hf_), kEmbedding); }
  // With one of the two trained alone, which parts it from the other.
  LoadedModel load_with_trained(const char* tensor, const char* module) {
    train(tensor, 5);
    fields_["modules_to_save"] = {module};
    write_peft();
    LoadedModel loaded = load_model(peft_);
    EXPECT_FALSE(loaded.model.tied);
    EXPECT_EQ(first(loaded, tensor), 5);
    return loaded;
  }
};

TEST_F(TiedPeft, AnEmbeddingTrainedAloneLeavesTheHeadAsItWas) {
  const LoadedModel loaded = load_with_trained(kEmbedding, "embed_tokens");
  EXPECT_EQ(first(loaded, kHead), base());
  EXPECT_FALSE(describe_model(peft_).model.tied);
  EXPECT_LT(difference(loaded), 1e-5);
  export_hf(peft_, dir_ / "merged", DType::kF32);
  EXPECT_EQ(first(load_model(dir_ / "merged"), kHead), base());
}

TEST_F(TiedPeft, AHeadTrainedAloneLeavesTheEmbeddingAsItWas) {
  EXPECT_EQ(first(load_with_trained(kHead, "lm_head"), kEmbedding), base());
}

TEST_F(TiedPeft, BothStayOneTensorOnlyWhereTheyAreEqual) {
  train(kEmbedding, 5);
  train(kHead, 5);
  fields_["modules_to_save"] = {"embed_tokens", "lm_head"};
  write_peft();
  const LoadedModel tied = load_model(peft_);
  EXPECT_TRUE(tied.model.tied);
  EXPECT_EQ(first(tied, kEmbedding), 5);
  factors_.values.back().back() = 6;
  write_peft();
  const LoadedModel apart = load_model(peft_);
  EXPECT_FALSE(apart.model.tied);
  EXPECT_EQ(std::as_const(*apart.params).tensor(apart.layout->find(kHead)).back(), 6);
}

TEST_F(TiedPeft, OneThatPeftKeepsTiedStaysTied) {
  train(kEmbedding, 5);
  fields_["modules_to_save"] = {"embed_tokens"};
  fields_["ensure_weight_tying"] = true;
  write_peft();
  const LoadedModel loaded = load_model(peft_);
  EXPECT_TRUE(loaded.model.tied);
  EXPECT_EQ(first(loaded, kEmbedding), 5);
}

TEST_F(Peft, HalfOfAPairIsNamed) {
  factors_.remove("base_model.model.model.layers.1.self_attn.q_proj.lora_B.weight");
  write_peft();
  EXPECT_THAT(load_error(), AllOf(HasSubstr("missing"), HasSubstr("layers.1.self_attn.q_proj")));
  fs::remove(peft_ / "adapter_model.safetensors");
  EXPECT_THAT(load_error(), HasSubstr("adapter_model.safetensors is missing"));
}

TEST_F(Peft, MergingTwiceIsRefusedWhereTheBaseIsKnown) {
  write_peft();
  const uint64_t digest = checkpoint::digest_weights(*load_model(hf_).params);
  write_file(peft_ / checkpoint::kAdapterBaseFile,
             checkpoint::print_adapter_base({digest, hf_.string()}));
  export_hf(peft_, dir_ / "merged", DType::kF32);
  EXPECT_THAT(load_error(dir_ / "merged"), HasSubstr("this one with factors already merged"));
}

TEST_F(Peft, AFullDiskLeavesNothingBehind) {
  write_peft();
  const tests::FileSizeLimit full(20'000);
  EXPECT_THAT(error_of([&] { import_hf(peft_, dir_ / "imported"); }), HasSubstr("cannot write"));
  EXPECT_FALSE(fs::exists(dir_ / "imported"));
}

}  // namespace
}  // namespace thinwire::convert
