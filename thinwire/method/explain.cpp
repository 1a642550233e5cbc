#include "thinwire/method/explain.h"

#include "thinwire/config/explain.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/registry.h"

namespace thinwire::method {

std::string explain_recipe(std::string_view what) {
  config::Choices choices;
  for (const Method* method : all_methods()) {
    choices["sync.method"].emplace_back(method->name, method->sentence);
  }
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    choices["optim.method"].emplace_back(optimizer->name, optimizer->sentence);
  }
  for (const Architecture* architecture : all_architectures()) {
    choices["model.architecture"].emplace_back(architecture->name, architecture->sentence);
  }
  for (const AdapterKind& kind : all_adapters()) {
    choices["adapter.kind"].emplace_back(kind.name, kind.sentence);
  }
  return config::explain_recipe(method_sections(), choices, what);
}

}  // namespace thinwire::method
