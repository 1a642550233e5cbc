#include "thinwire/convert/hf_architectures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/error.h"

namespace thinwire::convert {
namespace {

std::vector<const HfArchitecture*> list_forms() {
  std::vector<const HfArchitecture*> forms;
#define THINWIRE_ARCHITECTURE(Name) \
  forms.insert(forms.end(), k##Name##Forms.begin(), k##Name##Forms.end());
#include "thinwire/architectures/architectures.inc"
#undef THINWIRE_ARCHITECTURE
  return forms;
}

bool is_named(const HfFields& fields, const HfArchitecture& architecture) {
  if (fields.find("model_type") != nullptr) {
    return fields.text("model_type", "") == architecture.model_type;
  }
  const HfJson* classes = fields.find("architectures");
  return classes != nullptr && *classes == HfJson::array({std::string(architecture.class_name)});
}

}  // namespace

std::span<const HfArchitecture* const> all_hf_architectures() {
  static const std::vector<const HfArchitecture*> forms = list_forms();
  return forms;
}

const HfArchitecture& hf_architecture_of(const HfFields& fields) {
  std::vector<std::string> known;
  for (const HfArchitecture* architecture : all_hf_architectures()) {
    if (is_named(fields, *architecture)) return *architecture;
    known.push_back(fmt::format("\"{}\"", architecture->model_type));
  }
  fields.refuse("model_type is \"{}\"; only {} can be imported", fields.text("model_type", ""),
                fmt::join(known, ", "));
}

const HfArchitecture& hf_architecture_of(const method::ModelSpec& model) {
  for (const HfArchitecture* architecture : all_hf_architectures()) {
    if (architecture->name == model.architecture && architecture->holds(model)) {
      return *architecture;
    }
  }
  throw Error(fmt::format("no model of Hugging Face has these options of [{}] together",
                          model.architecture));
}

}  // namespace thinwire::convert
