// config.json of Hugging Face's LlamaForCausalLM.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/config/recipe.h"
#include "thinwire/data/vocabulary.h"

namespace thinwire::train {

struct HfConfig {
  config::ModelSection model;  // complete
  int64_t sequence = 0;        // max_position_embeddings
};

// Reads config.json as transformers 4.x and 5.x write it, absent fields taking transformers'
// defaults. Throws Error that names the file, the field, its value and what would be right when it
// is no Llama or asks for something Thinwire's model does not compute.
HfConfig read_hf_config(const fs::path& path);

// The same for writing, readable by both. `vocabulary` gives the ids of BOS and EOS; null: none.
std::string print_hf_config(const HfConfig& config, const data::Vocabulary* vocabulary,
                            DType dtype);

// generation_config.json.
std::string print_generation_config(const data::Vocabulary* vocabulary);

// tokenizer_config.json for a SentencePiece model. add_bos: whether texts begin with BOS, which
// Thinwire's own training does not do.
std::string print_tokenizer_config(const HfConfig& config, const data::Vocabulary& vocabulary,
                                   bool add_bos);

}  // namespace thinwire::train
