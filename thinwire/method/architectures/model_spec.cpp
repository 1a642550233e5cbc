#include "thinwire/method/architectures/model_spec.h"

#include "thinwire/config/values.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::method {

ModelSpec::ModelSpec() : own(find_architecture(architecture).options()) {}

ModelSpec::ModelSpec(const config::Recipe& recipe)
    : ModelSection(recipe.model),
      own(recipe.section(std::string(find_architecture(architecture).name)).clone()) {}

ModelSpec::ModelSpec(const ModelSpec& other) : ModelSection(other), own(other.own->clone()) {}

ModelSpec& ModelSpec::operator=(const ModelSpec& other) {
  if (this == &other) return *this;
  ModelSection::operator=(other);
  own = other.own->clone();
  return *this;
}

void set_model(config::Recipe& recipe, const ModelSpec& model) {
  recipe.model = static_cast<const config::ModelSection&>(model);
  recipe.methods[model.architecture] = model.own->clone();
}

std::vector<std::pair<std::string, std::string>> field_values(const ModelSpec& model) {
  ModelSpec copy = model;
  config::Fields fields;
  copy.describe(fields);
  copy.own->describe(fields);
  std::vector<std::pair<std::string, std::string>> values;
  for (const config::Field& field : fields.all()) {
    values.emplace_back(field.name, config::print_value(field));
  }
  return values;
}

}  // namespace thinwire::method
