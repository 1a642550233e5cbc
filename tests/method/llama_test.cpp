#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/architectures/llama/llama_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

ModelSpec small_model() {
  ModelSpec model;
  model.vocab = 32000;
  model.hidden = 512;
  model.layers = 6;
  model.heads = 8;
  model.options<LlamaOptions>().intermediate = 1376;
  return model;
}

TEST(LlamaTensors, FollowTheArenasOrderAndHuggingFacesNames) {
  ModelSpec model = small_model();
  model.layers = 1;
  model.options<LlamaOptions>().kv_heads = 2;
  const std::vector<std::pair<std::string, Shape>> expected = {
      {"model.embed_tokens.weight", {32000, 512}},
      {"model.layers.0.input_layernorm.weight", {512}},
      {"model.layers.0.self_attn.q_proj.weight", {512, 512}},
      {"model.layers.0.self_attn.k_proj.weight", {128, 512}},
      {"model.layers.0.self_attn.v_proj.weight", {128, 512}},
      {"model.layers.0.self_attn.o_proj.weight", {512, 512}},
      {"model.layers.0.post_attention_layernorm.weight", {512}},
      {"model.layers.0.mlp.gate_proj.weight", {1376, 512}},
      {"model.layers.0.mlp.up_proj.weight", {1376, 512}},
      {"model.layers.0.mlp.down_proj.weight", {512, 1376}},
      {"model.norm.weight", {512}},
      {"lm_head.weight", {32000, 512}},
  };
  const std::vector<TensorSpec> tensors = tensors_of(model);
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(tensors[i].name, expected[i].first);
    EXPECT_EQ(tensors[i].shape, expected[i].second) << tensors[i].name;
  }
}

// Names and shapes of the first block, without the prefix.
std::vector<std::string> block_of(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const TensorSpec& tensor : tensors_of(model)) {
    if (tensor.layer != 0) continue;
    names.push_back(fmt::format("{} {}", tensor.name.substr(std::string("model.layers.0.").size()),
                                fmt::join(tensor.shape, "x")));
  }
  return names;
}

TEST(LlamaTensors, FollowTheOptionsOfTheFamilies) {
  ModelSpec model = small_model();
  auto& llama = model.options<LlamaOptions>();
  llama.kv_heads = 2;
  llama.head_dim = 32;
  llama.qkv_bias = llama.out_bias = llama.mlp_bias = true;
  llama.qk_norm = QkNorm::kHead;
  EXPECT_THAT(block_of(model),
              ElementsAre("input_layernorm.weight 512", "self_attn.q_proj.weight 256x512",
                          "self_attn.k_proj.weight 64x512", "self_attn.v_proj.weight 64x512",
                          "self_attn.q_proj.bias 256", "self_attn.k_proj.bias 64",
                          "self_attn.v_proj.bias 64", "self_attn.q_norm.weight 32",
                          "self_attn.k_norm.weight 32", "self_attn.o_proj.weight 512x256",
                          "self_attn.o_proj.bias 512", "post_attention_layernorm.weight 512",
                          "mlp.gate_proj.weight 1376x512", "mlp.up_proj.weight 1376x512",
                          "mlp.gate_proj.bias 1376", "mlp.up_proj.bias 1376",
                          "mlp.down_proj.weight 512x1376", "mlp.down_proj.bias 512"));
  llama.qkv_bias = llama.out_bias = llama.mlp_bias = false;
  llama.qk_norm = QkNorm::kAll;
  llama.norm_place = NormPlace::kAfter;
  EXPECT_THAT(block_of(model),
              ElementsAre("self_attn.q_proj.weight 256x512", "self_attn.k_proj.weight 64x512",
                          "self_attn.v_proj.weight 64x512", "self_attn.q_norm.weight 256",
                          "self_attn.k_norm.weight 64", "self_attn.o_proj.weight 512x256",
                          "post_attention_layernorm.weight 512", "mlp.gate_proj.weight 1376x512",
                          "mlp.up_proj.weight 1376x512", "mlp.down_proj.weight 512x1376",
                          "post_feedforward_layernorm.weight 512"));
}

TEST(LlamaTensors, BiasesBeginAtZeroAndDoNotDecay) {
  ModelSpec model = small_model();
  model.options<LlamaOptions>().qkv_bias = true;
  for (const TensorSpec& tensor : kLlama.tensors(model)) {
    if (!tensor.name.ends_with("bias")) continue;
    EXPECT_FALSE(tensor.decays()) << tensor.name;
    EXPECT_EQ(kLlama.initial(model, tensor).mean, 0) << tensor.name;
    EXPECT_EQ(kLlama.initial(model, tensor).deviation, 0) << tensor.name;
  }
}

TEST(LlamaTensors, CountTheParametersOfAKnownModel) {
  EXPECT_EQ(parameter_count(tensors_of(small_model())), 51'747'328);
  EXPECT_EQ(non_embedding_count(tensors_of(small_model())), 51'747'328 - 2 * 32000 * 512);
}

TEST(LlamaTensors, TiedModelsHaveNoHead) {
  ModelSpec model = small_model();
  model.tied = true;
  const std::vector<TensorSpec> tensors = tensors_of(model);
  EXPECT_EQ(tensors.back().name, "model.norm.weight");
  EXPECT_EQ(parameter_count(tensors), 51'747'328 - 32000 * 512);
}

TEST(LlamaTensors, NeedTheVocabulary) {
  ModelSpec model = small_model();
  model.vocab = 0;
  EXPECT_THROW(tensors_of(model), Error);
}

// A tensor's role decides its initial values and whether it decays.
TEST(LlamaTensors, BeginAsTheirRolesSay) {
  ModelSpec model = small_model();
  model.layers = 2;
  for (const TensorSpec& tensor : kLlama.tensors(model)) {
    const InitialValues values = kLlama.initial(model, tensor);
    const bool norm = tensor.role == TensorRole::kNorm;
    EXPECT_EQ(values.mean, norm ? 1 : 0) << tensor.name;
    EXPECT_EQ(tensor.decays(), !norm) << tensor.name;
    const bool adds = tensor.name.find("o_proj") != std::string::npos ||
                      tensor.name.find("down_proj") != std::string::npos;
    EXPECT_EQ(values.deviation, norm   ? 0
                                : adds ? model.init_std / 2
                                       : model.init_std)
        << tensor.name;
  }
}

// The message with which this width, heads and kv_heads are refused.
std::string refusal(int64_t hidden, int64_t heads, int64_t kv_heads) {
  ModelSpec model = small_model();
  model.hidden = hidden;
  model.heads = heads;
  model.options<LlamaOptions>().kv_heads = kv_heads;
  try {
    kLlama.check(model);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(LlamaCheck, HeadsMustDivideTheWidth) {
  EXPECT_EQ(refusal(100, 8, 0),
            "[model] hidden must be a multiple of heads, got hidden 100 and heads 8");
  EXPECT_EQ(refusal(128, 4, 3),
            "[model] heads must be a multiple of [llama] kv_heads, got heads 4 and kv_heads 3");
  EXPECT_THAT(refusal(12, 4, 0), EndsWith("got 12 / 4 = 3"));
  EXPECT_EQ(refusal(64, 4, 2), "(accepted)");
}

// The message with which a model with these options is refused.
std::string refusal_of(const std::vector<std::string>& overrides) {
  try {
    load_recipe({}, overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(LlamaCheck, OptionsMustNotContradictEachOther) {
  EXPECT_EQ(refusal_of({"model.hidden=100", "model.heads=8", "llama.head_dim=16"}), "(accepted)");
  EXPECT_THAT(refusal_of({"llama.head_dim=15"}), HasSubstr("[llama] head_dim must be even"));
  EXPECT_THAT(refusal_of({"llama.window=-1"}), HasSubstr("[llama] window must be >= 0"));
  EXPECT_THAT(refusal_of({"llama.full_layers=2"}),
              HasSubstr("[llama] full_layers = 2 needs window >= 1, got 0"));
  EXPECT_THAT(refusal_of({"llama.rope_factor=2"}),
              HasSubstr("[llama] rope_factor = 2 needs rope_scaling, got \"none\""));
  EXPECT_THAT(refusal_of({"llama.rope_scaling=linear", "llama.rope_factor=0.5"}),
              HasSubstr("[llama] rope_factor must be >= 1"));
  EXPECT_THAT(refusal_of({"llama.rope_scaling=yarn", "llama.rope_factor=2"}),
              HasSubstr("rope_scaling = \"yarn\" needs rope_context >= 1, got 0"));
  EXPECT_THAT(
      refusal_of({"llama.rope_scaling=dynamic", "llama.rope_context=8", "llama.head_dim=2"}),
      HasSubstr("needs heads wider than 2"));
  EXPECT_THAT(refusal_of({"llama.rope_scaling=llama3", "llama.rope_context=8",
                          "llama.rope_low_frequency=4"}),
              HasSubstr("rope_high_frequency must be > rope_low_frequency, got 4 and 4"));
  EXPECT_THAT(
      refusal_of({"llama.rope_scaling=yarn", "llama.rope_context=8", "llama.rope_beta_fast=1"}),
      HasSubstr("rope_beta_fast must be > rope_beta_slow, got 1 and 1"));
  EXPECT_THAT(refusal_of({"llama.qk_norm=some"}), HasSubstr("[llama] qk_norm"));
}

// Covers every entry of the table, so that a new one is checked, too.
TEST(Architectures, NameEveryFieldTheyKnowAndGiveEachTensorARole) {
  for (const Architecture* architecture : all_architectures()) {
    EXPECT_EQ(&find_architecture(architecture->name), architecture);
    const std::string own(architecture->name);
    std::vector<std::string> overrides = {"model.architecture=" + own, "model.vocab=1000"};
    if (architecture->encodes) overrides.emplace_back("data.records=labels");
    ModelSpec model(load_recipe({}, overrides));
    EXPECT_EQ(model.own->chosen_by(), "model.architecture") << own;
    config::Fields fields;
    model.describe(fields);
    model.own->describe(fields);
    for (const auto names : {architecture->shape_fields, architecture->arithmetic_fields}) {
      for (const std::string_view name : names) {
        EXPECT_EQ(std::ranges::count(fields.all(), name, &config::Field::name), 1) << name;
      }
    }
    std::set<std::string> names;
    for (const TensorSpec& tensor : tensors_of(model)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      if (!architecture->encodes) {  // which has tables of positions, too
        EXPECT_EQ(tensor.is_vocabulary_sized(), tensor.shape[0] == model.vocab) << tensor.name;
      }
      EXPECT_EQ(tensor.is_hidden_matrix(),
                tensor.shape.size() == 2 && !tensor.is_vocabulary_sized())
          << tensor.name;
    }
  }
}

TEST(Llama, FillsWhatFollowsFromTheModelsWidthAndHeads) {
  const std::vector<std::string> overrides = {"model.hidden=192", "model.heads=6"};
  const ModelSpec model(load_recipe({}, overrides));
  EXPECT_EQ(model.options<LlamaOptions>().kv_heads, 6);
  EXPECT_EQ(model.options<LlamaOptions>().intermediate, 512);
}

TEST(Llama, FieldsKeepTheirOldNamesAndTheirPlaceInTheIdentityOfARun) {
  const std::vector<std::string> overrides = {"model.kv_heads=2",     "model.intermediate=72",
                                              "model.rope_theta=5e5", "model.norm_eps=1e-6",
                                              "model.tied=true",      "model.heads=8"};
  const config::Recipe recipe = load_recipe({}, overrides);
  const auto& llama = recipe.section<LlamaOptions>("llama");
  EXPECT_EQ(llama.kv_heads, 2);
  EXPECT_EQ(llama.intermediate, 72);
  EXPECT_EQ(llama.rope.theta, 5e5);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  EXPECT_THAT(recipe.notices, ElementsAre("model.kv_heads is now called llama.kv_heads",
                                          "model.intermediate is now called llama.intermediate",
                                          "model.rope_theta is now called llama.rope_theta",
                                          "model.norm_eps is now called llama.norm_eps"));
  EXPECT_EQ(config::print_changes(recipe, load_recipe({}, {})),
            "model.heads = 8\nmodel.kv_heads = 2\nmodel.intermediate = 72\n"
            "model.rope_theta = 500000.0\nmodel.norm_eps = 1e-06\nmodel.tied = true\n");
}

TEST(ModelSpec, IsAValueThatARecipeTakesBack) {
  ModelSpec model = small_model();
  const ModelSpec copy = model;
  model.options<LlamaOptions>().kv_heads = 4;
  EXPECT_EQ(copy.options<LlamaOptions>().kv_heads, 0);
  config::Recipe recipe = load_recipe({}, {});
  set_model(recipe, model);
  EXPECT_EQ(field_values(ModelSpec(recipe)), field_values(model));
  EXPECT_NE(field_values(copy), field_values(model));
}

TEST(Architectures, AWrongNameIsRefusedWithTheRightOnes) {
  try {
    find_architecture("lama");
    FAIL() << "found";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), StartsWith("[model] architecture must be one of llama"));
    EXPECT_THAT(error.what(), EndsWith("got \"lama\"; did you mean llama?"));
  }
}

// A prediction and the parts of a measured step add up to the same work.
TEST(LlamaWork, AddsUpToTheFlopsOfAToken) {
  const ModelSpec model = small_model();
  const TokenWork work = kLlama.work(model, {1, 128, 4});
  // The products of attention as counted: 6 per layer, width and position, although 7 are computed.
  EXPECT_EQ(work.products + work.head + work.attention * 6 / 7, train_flops_per_token(model, 128));
  EXPECT_EQ(work.head, 6.0 * 512 * 32000);
}

TEST(TrainFlops, CountMatricesHeadAndCausalAttention) {
  const ModelSpec model = small_model();
  const double matrices = 6 * (4 * 512 * 512 + 3 * 512 * 1376) + 32000 * 512;
  EXPECT_EQ(train_flops_per_token(model, 128), 6 * matrices + 12.0 * 6 * 512 * 128 / 2);
}

TEST(TrainFlops, OfAttentionFollowTheWidthOfTheHeadsAndTheWindow) {
  ModelSpec model = small_model();
  auto& llama = model.options<LlamaOptions>();
  const double plain = train_flops_per_token(model, 128);
  llama.window = 32;
  // A token sees 32 positions but for the first 32, which see half as many.
  const double saved = 12.0 * 6 * 512 * (64 - (32 - 32 * 32 / 256.0));
  EXPECT_EQ(train_flops_per_token(model, 128), plain - saved);
  llama.full_layers = 4;
  EXPECT_EQ(train_flops_per_token(model, 128), plain - saved / 3);
  llama.window = 128;
  EXPECT_EQ(train_flops_per_token(model, 128), plain);
  llama.head_dim = 128;  // twice as wide
  const double wider = 6 * 6.0 * 4 * 512 * 512 + 12.0 * 6 * 512 * 64;
  EXPECT_EQ(train_flops_per_token(model, 128), plain + wider);
}

TEST(TrainFlops, AreTheSameWhenTheHeadIsTied) {
  ModelSpec tied = small_model();
  tied.tied = true;
  EXPECT_EQ(train_flops_per_token(tied, 128), train_flops_per_token(small_model(), 128));
}

}  // namespace
}  // namespace thinwire::method
