// The model types of Hugging Face that Thinwire computes: the names of each and of its fields in
// config.json. Several of them may be one architecture here, with other options. Tensors need no
// table: method::Architecture names them as Hugging Face does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "thinwire/base/file.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/convert/hf_fields.h"

namespace thinwire::convert {

struct HfArchitecture {
  std::string_view name;        // of method::Architecture
  std::string_view model_type;  // in config.json
  std::string_view class_name;  // the one entry of "architectures" there
  int64_t positions = 2048;     // max_position_embeddings where it is absent
  // All fields of a model except `architecture`. For anything that the model does not compute,
  // throws Error naming the file, the field, its value and what would be right.
  method::ModelSpec (*read)(const HfFields& fields);
  // Whether config.json of this model_type can describe the model.
  bool (*holds)(const method::ModelSpec& model);
  // config.json without its special tokens; `dtype` is PyTorch's name.
  HfJson (*print)(const HfConfig& config, const char* dtype);
};

// The forms of each folder of thinwire/architectures.
#define THINWIRE_ARCHITECTURE(Name) \
  extern const std::span<const HfArchitecture* const> k##Name##Forms;
#include "thinwire/architectures/architectures.inc"
#undef THINWIRE_ARCHITECTURE

std::span<const HfArchitecture* const> all_hf_architectures();

// The architecture that config.json names, by its model_type or else by its class. Throws Error
// that says which can be imported.
const HfArchitecture& hf_architecture_of(const HfFields& fields);

// The first in the table that holds one of our models. Throws Error if there is none.
const HfArchitecture& hf_architecture_of(const method::ModelSpec& model);

}  // namespace thinwire::convert
