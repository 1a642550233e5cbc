// The architectures that both Hugging Face and Thinwire have: the names of each and of its fields
// in config.json. Tensors need no table: method::Architecture names them as Hugging Face does.
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
  // All fields of a model except `architecture`. For anything that the model does not compute,
  // throws Error naming the file, the field, its value and what would be right.
  method::ModelSpec (*read)(const HfFields& fields);
  // config.json without its special tokens; `dtype` is PyTorch's name.
  HfJson (*print)(const HfConfig& config, const char* dtype);
  // Whether a folder of another name, which no architecture has, computes the same; null: none
  // does. Throws as `read`.
  bool (*is_another)(const HfFields& fields) = nullptr;
};

std::span<const HfArchitecture* const> all_hf_architectures();

// The architecture that config.json names, by its model_type or else by its class. Throws Error
// that says which can be imported.
const HfArchitecture& hf_architecture_of(const HfFields& fields);

// The architecture of one of our models. Throws Error if Hugging Face has none.
const HfArchitecture& hf_architecture_of(const method::ModelSpec& model);

}  // namespace thinwire::convert
