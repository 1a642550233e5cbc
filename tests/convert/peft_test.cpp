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
