// Folders of PEFT, Hugging Face's library for adapters (LoRA): adapter_config.json and
// adapter_model.safetensors, which hold the factors and name the model that they belong to.
#pragma once

#include <cstdint>
#include <string>

#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/weights.h"
#include "thinwire/config/fields.h"
#include "thinwire/config/recipe.h"
#include "thinwire/convert/load.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/model_spec.h"
#include "thinwire/tensor/storage/arena.h"

namespace thinwire::convert {

// Whether the folder has an adapter_config.json.
bool is_peft_folder(const fs::path& folder);

// The folder of the model that a PEFT folder's factors belong to: `base`, or if that is empty what
// adapter_config.json names. Throws Error if there is no such folder on this machine.
fs::path peft_base(const fs::path& folder, const fs::path& base);

// The recipe of the model that load_peft gives, for describe_model.
config::Recipe describe_peft(const fs::path& folder);

// Loads the model with the factors merged, for load_model. Where the folder holds an embedding of
// its own for a base whose head is its embedding, or such a head, PEFT leaves the other as it was:
// then the model has both (tied = false). Throws Error naming the file and what is
// wrong: a kind of adapter other than LoRA, a variant of it that computes something else (DoRA,
// trained biases, ranks or scales by matrix, bases changed by the initialization), a field that is
// not understood, factors of another rank or another model.
LoadedModel load_peft(const fs::path& folder, const fs::path& base);

// Fills the trained tensors of a run with an adapter from those in `path`, a PEFT folder,
// checkpoint or run. Throws UsageError if rank or scale differ, Error if the tensors do, or if
// `path` says that they belong to weights with another digest than `base_digest`.
void read_factors(const fs::path& path, const config::Recipe& recipe, uint64_t base_digest,
                  tensor::Arena& trained);

// Writes the factors of a run with lora as a PEFT folder, dtype kF32 or kBf16; an embedding that is
// also the head twice, since PEFT trains a copy for each of its uses. The folder appears
// only when it is complete; throws Error if it exists and is not empty, or if `path` is no such
// run.
void export_peft(const fs::path& path, const fs::path& out_dir, DType dtype,
                 const checkpoint::TensorProgress& progress = {});

// adapter_config.json of a PEFT folder.
inline constexpr const char* kPeftConfigFile = "adapter_config.json";

struct PeftConfig {
  int64_t rank = 0;  // r
  double alpha = 0;  // lora_alpha; with use_rslora so that alpha / rank is PEFT's alpha / sqrt(r)
  std::string base;  // base_model_name_or_path: a folder, or a name on the Hugging Face Hub
  bool classifies = false;        // task_type: SEQ_CLS, not CAUSAL_LM
  config::StringList whole = {};  // modules_to_save, by their whole names or the last parts of them
  bool ties = false;  // ensure_weight_tying: a copy of a tied embedding in `whole` is the head, too
};

// Throws Error naming the file, the field, its value and what would be right, for anything but LoRA
// as Thinwire computes it, and for a field that it does not know, unless its value is null, false
// or empty, by which PEFT says that something is not used.
PeftConfig read_peft_config(const fs::path& path);

// Which modules have factors and which are trained in full, by PEFT's names for them.
struct PeftModules {
  config::StringList targets;  // target_modules
  config::StringList whole;    // modules_to_save
};
std::string print_peft_config(const PeftConfig& config, const PeftModules& modules);

// Models for which a run trained an adapter (method/adapters/adapter.h), merged with that adapter.

// The model in `base`, which the factors in `folder` need. Throws Error naming both if there is
// none.
LoadedModel load_base(const fs::path& folder, const fs::path& base);

// Merges the trained tensors into the loaded model's weights, which are those of the base.
void merge_adapter(const tensor::Arena& trained, const method::AdapterSpec& adapter,
                   LoadedModel& loaded);

// Fills the weights of loaded.model from a checkpoint whose recipe has an adapter. `base` replaces
// train.init if it is not empty. Throws Error if the base is not the one of the checkpoint.
void read_adapted(const checkpoint::CheckpointReader& reader, const config::Recipe& recipe,
                  const fs::path& base, LoadedModel& loaded);

}  // namespace thinwire::convert
