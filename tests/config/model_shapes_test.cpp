#include "thinwire/config/model_shapes.h"

#include <gtest/gtest.h>

#include "thinwire/base/error.h"

namespace thinwire::config {
namespace {

ModelSection small_model() {
  ModelSection model;
  model.vocab = 32000;
  model.hidden = 512;
  model.layers = 6;
  model.heads = 8;
  model.intermediate = 1376;
  return model;
}

TEST(LlamaTensors, FollowTheArenasOrderAndHuggingFacesNames) {
  ModelSection model = small_model();
  model.layers = 1;
  model.kv_heads = 2;
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
  const std::vector<TensorSpec> tensors = llama_tensors(model);
  ASSERT_EQ(tensors.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(tensors[i].name, expected[i].first);
    EXPECT_EQ(tensors[i].shape, expected[i].second) << tensors[i].name;
  }
}

TEST(LlamaTensors, CountTheParametersOfAKnownModel) {
  EXPECT_EQ(parameter_count(llama_tensors(small_model())), 51'747'328);
  EXPECT_EQ(non_embedding_count(llama_tensors(small_model())), 51'747'328 - 2 * 32000 * 512);
}

TEST(LlamaTensors, TiedModelsHaveNoHead) {
  ModelSection model = small_model();
  model.tied = true;
  const std::vector<TensorSpec> tensors = llama_tensors(model);
  EXPECT_EQ(tensors.back().name, "model.norm.weight");
  EXPECT_EQ(parameter_count(tensors), 51'747'328 - 32000 * 512);
}

TEST(LlamaTensors, NeedTheVocabulary) {
  ModelSection model = small_model();
  model.vocab = 0;
  EXPECT_THROW(llama_tensors(model), Error);
}

TEST(TrainFlops, CountMatricesHeadAndCausalAttention) {
  const ModelSection model = small_model();
  const double matrices = 6 * (4 * 512 * 512 + 3 * 512 * 1376) + 32000 * 512;
  EXPECT_EQ(train_flops_per_token(model, 128), 6 * matrices + 12.0 * 6 * 512 * 128 / 2);
}

TEST(TrainFlops, AreTheSameWhenTheHeadIsTied) {
  ModelSection tied = small_model();
  tied.tied = true;
  EXPECT_EQ(train_flops_per_token(tied, 128), train_flops_per_token(small_model(), 128));
}

}  // namespace
}  // namespace thinwire::config
