// The architectures that Hugging Face's folders and ours have in common: what config.json calls
// them and their fields. Tensors need no table: method::Architecture names them as Hugging Face
// does.
#pragma once

#include <span>
#include <string_view>

#include "thinwire/convert/hf_config.h"
#include "thinwire/convert/hf_fields.h"

namespace thinwire::convert {

struct HfArchitecture {
  std::string_view name;        // of method::Architecture
  std::string_view model_type;  // in config.json
  std::string_view class_name;  // the one entry of "architectures" there
  // All of [model] but `architecture`. Throws Error that names the file, the field, its value and
  // what would be right for what the model does not compute.
  config::ModelSection (*read)(const HfFields& fields);
  // config.json but for its special tokens; `dtype` by its name in PyTorch.
  HfJson (*print)(const HfConfig& config, const char* dtype);
  // Whether a folder of another name, which no architecture has, computes the same; null: none
  // does. Throws as `read`.
  bool (*is_another)(const HfFields& fields) = nullptr;
};

std::span<const HfArchitecture* const> all_hf_architectures();

// The one that config.json names, by its model_type or else by its class. Throws Error that says
// which can be imported.
const HfArchitecture& hf_architecture_of(const HfFields& fields);

// That of a model of ours. Throws Error where Hugging Face has none.
const HfArchitecture& hf_architecture_of(const config::ModelSection& model);

}  // namespace thinwire::convert
