// A model out of any folder that holds one: a run folder (its newest checkpoint), a checkpoint, or
// a Hugging Face folder.
#pragma once

#include <cstdint>
#include <memory>

#include "thinwire/base/file.h"
#include "thinwire/config/model_section.h"
#include "thinwire/config/recipe.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::convert {

struct LoadedModel {
  config::ModelSection model;  // complete: vocab, kv_heads and intermediate are set
  int64_t sequence = 0;        // tokens of a row the model was trained on
  std::unique_ptr<tensor::Layout> layout;
  std::unique_ptr<tensor::Arena> params;
  std::unique_ptr<data::Vocabulary> vocabulary;  // null when the folder has none
  int32_t begin = -1;                            // the token that texts begin with; -1: none
  HfOrigin origin;                               // of the Hugging Face folder it is from, if any
};

// Makes layout and params of loaded.model, not yet initialised. Throws UsageError that names
// `origin` where this machine cannot hold them.
void allocate_params(LoadedModel& loaded, const fs::path& origin);

// Texts begin as in training. Thinwire's ends every document with EOS, so what follows one begins a
// text: `begin` is EOS for what was trained here, unless it came from a Hugging Face folder that
// puts nothing before texts. Weights from elsewhere begin as their folder says
// (convert/hf_tokenizer.h). Throws Error that names the folder when it is none of the three or is
// damaged.
LoadedModel load_model(const fs::path& path);

// What such a folder says of its model, without reading the weights: a recipe whose [model], and
// table of the architecture, are complete. Throws as load_model.
config::Recipe describe_model(const fs::path& path);

}  // namespace thinwire::convert
