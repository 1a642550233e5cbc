// Folders of PEFT, Hugging Face's library for adapters (LoRA): adapter_config.json and
// adapter_model.safetensors, which hold the factors and name the model that they belong to.
#pragma once

#include <cstdint>

#include "thinwire/base/file.h"
#include "thinwire/base/tensor_view.h"
#include "thinwire/checkpoint/weights.h"
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

// Loads the model with the factors merged, for load_model. Throws Error naming the file and what is
// wrong: a kind of adapter other than LoRA, a variant of it that computes something else (DoRA,
// trained biases, ranks or scales by matrix, bases changed by the initialization), factors of
// another rank or another model.
LoadedModel load_peft(const fs::path& folder, const fs::path& base);

// Fills the trained tensors of a run with this adapter from those in `path`, a PEFT folder,
// checkpoint or run. Throws UsageError if rank or scale differ, Error if the tensors do, or if
// `path` says that they belong to weights with another digest than `base_digest`.
void read_factors(const fs::path& path, const method::AdapterSpec& adapter, uint64_t base_digest,
                  tensor::Arena& trained);

// Writes the factors of a run with lora as a PEFT folder, dtype kF32 or kBf16. The folder appears
// only when it is complete; throws Error if it exists and is not empty, or if `path` is no such
// run.
void export_peft(const fs::path& path, const fs::path& out_dir, DType dtype,
                 const checkpoint::TensorProgress& progress = {});

}  // namespace thinwire::convert
