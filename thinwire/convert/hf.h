// Hugging Face folders: written for transformers (4.x and 5.x) to load, and read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/checkpoint/weights.h"
#include "thinwire/convert/load.h"

namespace thinwire::convert {

// What the user should know beyond success, one sentence each (e.g. that there is no tokenizer).
using Notes = std::vector<std::string>;

// Writes config.json, generation_config.json, model.safetensors (dtype kF32, kBf16 or kF16; if none
// is given, that in which the model came if every weight still is such a number, else fp32) and,
// for a SentencePiece vocabulary, tokenizer.model with tokenizer_config.json; a byte vocabulary is
// written as vocabulary.json, which transformers cannot use. `source` and `base` are what
// load_model accepts. The folder appears only when it is complete; throws Error if it exists and is
// not empty.
Notes export_hf(const fs::path& source, const fs::path& out_dir, std::optional<DType> wanted,
                const checkpoint::TensorProgress& progress = {}, const fs::path& base = {});

// Reads a Hugging Face folder (config.json, model.safetensors or its shards with index, fp32, bf16
// or fp16, tied or untied, grouped-query) into a Thinwire checkpoint folder of step 0, usable for
// train.init, generate and export. Throws Error naming the file and what is wrong: a model_type
// that Thinwire does not compute (hf_architectures.h), a field of config.json that it does not
// understand, missing, extra or misshaped tensors. A PEFT folder is merged into its base
// (convert/peft.h). labels: of an encoder without a classification head, the classes of the head
// that is drawn for it; 0: it must have one.
Notes import_hf(const fs::path& hf_dir, const fs::path& out_dir,
                const checkpoint::TensorProgress& reading = {},
                const checkpoint::TensorProgress& writing = {}, const fs::path& base = {},
                int64_t labels = 0);

// Whether the folder has a config.json.
bool is_hf_folder(const fs::path& folder);

// Loads the folder as it is, for load_model, whose `into` it has. labels: as for import_hf, and 0
// with `into`.
LoadedModel load_hf(const fs::path& hf_dir, const checkpoint::TensorProgress& progress = {},
                    int64_t labels = 0, tensor::Arena* into = nullptr);

// What its config.json says, for describe_model.
config::Recipe describe_hf(const fs::path& hf_dir);

}  // namespace thinwire::convert
