#include "thinwire/convert/hf_architectures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/convert/hf_llama.h"

namespace thinwire::convert {
namespace {

// A model that several hold is exported as the first.
constexpr std::array kArchitectures = {
    &kHfLlama, &kHfMistral, &kHfQwen2, &kHfQwen3, &kHfOlmo2, &kHfRoberta,
};

bool is_named(const HfFields& fields, const HfArchitecture& architecture) {
  if (fields.find("model_type") != nullptr) {
    return fields.text("model_type", "") == architecture.model_type;
  }
  const HfJson* classes = fields.find("architectures");
  return classes != nullptr && *classes == HfJson::array({std::string(architecture.class_name)});
}

}  // namespace

std::span<const HfArchitecture* const> all_hf_architectures() { return kArchitectures; }

const HfArchitecture& hf_architecture_of(const HfFields& fields) {
  std::vector<std::string> known;
  for (const HfArchitecture* architecture : kArchitectures) {
    if (is_named(fields, *architecture)) return *architecture;
    known.push_back(fmt::format("\"{}\"", architecture->model_type));
  }
  fields.refuse("model_type is \"{}\"; only {} can be imported", fields.text("model_type", ""),
                fmt::join(known, ", "));
}

const HfArchitecture& hf_architecture_of(const method::ModelSpec& model) {
  for (const HfArchitecture* architecture : kArchitectures) {
    if (architecture->name == model.architecture && architecture->holds(model)) {
      return *architecture;
    }
  }
  throw Error(fmt::format("no model of Hugging Face has these options of [{}] together",
                          model.architecture));
}

}  // namespace thinwire::convert
