#include "thinwire/method/registry.h"

#include <fmt/format.h>

#include <array>

#include "thinwire/base/error.h"
#include "thinwire/method/allreduce.h"
#include "thinwire/method/diloco.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/local_sgd.h"
#include "thinwire/method/sparse.h"
#include "thinwire/method/streaming.h"

namespace thinwire::method {
namespace {

constexpr std::array kMethods = {
    &kAllReduce, &kDistro, &kLocalSgd, &kDiloco, &kStreaming, &kSparse,
};

}  // namespace

std::span<const Method* const> all_methods() { return kMethods; }

const Method& find_method(std::string_view name) {
  config::StringList known;
  for (const Method* method : kMethods) {
    if (method->name == name) return *method;
    known.emplace_back(method->name);
  }
  throw UsageError(
      fmt::format("[sync] method must be one of {}, got \"{}\"", fmt::join(known, ", "), name));
}

schedule::Rounds rounds_of(const config::Recipe& recipe) {
  return {recipe.train.steps, find_method(recipe.sync.method).sync_every(recipe)};
}

config::MethodSections method_sections() {
  config::MethodSections sections;
  for (const Method* method : kMethods) sections[std::string(method->name)] = method->options();
  return sections;
}

config::Recipe load_recipe(const std::filesystem::path& path,
                           std::span<const std::string> overrides) {
  config::Recipe recipe = config::load_recipe(path, overrides, method_sections());
  try {
    const Method& method = find_method(recipe.sync.method);
    if (!method.trains_apart && recipe.sync.within != "none") {
      throw UsageError(
          fmt::format("[sync] within = \"{}\" needs a method whose workers train apart, got method "
                      "= \"{}\", which synchronises all of them every step",
                      recipe.sync.within, recipe.sync.method));
    }
    method.check(recipe);
  } catch (const UsageError& error) {
    if (path.empty()) throw;
    throw UsageError(fmt::format("{}: {}", path.string(), error.what()));
  }
  return recipe;
}

}  // namespace thinwire::method
