// Loads a model from any folder that holds one: a run folder (its newest checkpoint), a checkpoint,
// a Hugging Face folder, or a PEFT folder.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/config/recipe.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/data/vocabulary.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::convert {

struct LoadedModel {
  method::ModelSpec model;  // complete, vocab too
  int64_t sequence = 0;     // tokens per row in its training
  std::unique_ptr<tensor::Layout> layout;
  std::unique_ptr<tensor::Arena> params;  // null if they were read into the caller's memory
  // The digest of params in fp32 (checkpoint/adapter_base.h), if they were read into the caller's
  // memory, which may round them.
  uint64_t digest = 0;
  std::unique_ptr<data::Vocabulary> vocabulary;  // null when the folder has none
  int32_t begin = -1;                            // the token with which texts begin; -1: none
  HfOrigin origin;                               // of the Hugging Face folder it is from, if any
  std::vector<std::string> notices;              // what the user should know, a sentence each
};

// Allocates layout and params of loaded.model, without initialising them. A notice says if they
// leave little memory. Throws UsageError naming `origin` if this machine cannot hold them.
void allocate_params(LoadedModel& loaded, const fs::path& origin);
// Whether two models have the same tensors, by name and shape.
bool same_tensors(std::span<const TensorSpec> a, std::span<const TensorSpec> b);
// `into`, or if that is null params that it allocates. Throws Error naming `origin` if the tensors
// of `into` are not those of loaded.model.
tensor::Arena& params_to_read(LoadedModel& loaded, const fs::path& origin, tensor::Arena* into);

// Texts begin as they did in training. Thinwire's training ends every document with EOS, so a text
// begins after an EOS, and `begin` is EOS for models trained here, unless it came from a Hugging
// Face folder that puts nothing before texts, or was trained on records (data.records), which begin
// as the vocabulary says (Vocabulary::begin). With weights from elsewhere, texts begin as their
// folder says (convert/hf_tokenizer.h). Throws Error naming the folder if it is none of these or
// is damaged.
//
// A PEFT folder, and a run that trained an adapter (method/adapters/adapter.h), are loaded with
// their factors merged into the model that they belong to. If that model is not where they say it
// is (train.init, base_model_name_or_path), `base` gives its folder. Throws Error if it is missing
// or a different model.
//
// If `into` is given, the weights are read into it tensor by tensor, so that they need no memory
// beside it; those of a model into which factors are merged are read as a whole first.
LoadedModel load_model(const fs::path& path, const fs::path& base = {},
                       tensor::Arena* into = nullptr);

// How a decoder keeps weights: bf16 takes half the memory, and half the time to read.
enum class DecodingWeights : uint8_t {
  kAuto,  // bf16 if every weight is a bf16 number, which changes no result; else fp32
  kF32,
  kBf16,  // rounded to nearest
};

// Moves loaded.params to a bf16 arena if `weights` says so.
void choose_weights(LoadedModel& loaded, DecodingWeights weights);

// The token with which texts begin for a model that is trained here, as load_model will report it:
// `source` is the folder that it starts from (empty: random weights), or `origin` what is kept of
// it; `records` the recipe's data.records. -1: none.
int32_t begin_in_training(const HfOrigin& origin, const data::Vocabulary& vocabulary,
                          config::RecordKind records);
int32_t begin_in_training(const fs::path& source, const data::Vocabulary& vocabulary,
                          config::RecordKind records);

// What such a folder says about its model, without reading the weights: a recipe whose [model] and
// architecture table are complete. Throws as load_model.
config::Recipe describe_model(const fs::path& path);

// The files that hold the whole model in such a folder, all in one folder and with everything that
// load_model reads of it. Throws UsageError for folders that hold factors alone, whose model is
// elsewhere, and for checkpoints of runs, which hold more than the model; throws otherwise as
// load_model.
std::vector<fs::path> model_files(const fs::path& path);

// Opens the checkpoint `path`, or the newest one of the run `path`; null if it is neither. If a
// run's newest checkpoint is damaged, the Error names the one to use instead.
std::unique_ptr<checkpoint::CheckpointReader> open_run(const fs::path& path);

// The recipe in a checkpoint.
config::Recipe recipe_of(const checkpoint::CheckpointReader& reader);

}  // namespace thinwire::convert
