#include "thinwire/convert/hf_architectures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/convert/hf_llama.h"

namespace thinwire::convert {
namespace {

constexpr std::array kArchitectures = {
    &kHfLlama,
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
  for (const HfArchitecture* architecture : kArchitectures) {
    if (architecture->is_another != nullptr && architecture->is_another(fields)) {
      return *architecture;
    }
  }
  fields.refuse("model_type is \"{}\"; only {} can be imported", fields.text("model_type", ""),
                fmt::join(known, ", "));
}

const HfArchitecture& hf_architecture_of(const method::ModelSpec& model) {
  const auto found = std::ranges::find(kArchitectures, model.architecture, &HfArchitecture::name);
  if (found != kArchitectures.end()) return **found;
  throw Error(
      fmt::format("there is no Hugging Face form of the architecture {}", model.architecture));
}

}  // namespace thinwire::convert
