#include "thinwire/method/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/config/check.h"
#include "thinwire/config/values.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/adapters/relora.h"
#include "thinwire/method/aggregate.h"
#include "thinwire/method/allreduce.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/method/diloco.h"
#include "thinwire/method/distro.h"
#include "thinwire/method/memory/formats.h"
#include "thinwire/method/memory/offload.h"
#include "thinwire/method/memory/updates.h"
#include "thinwire/method/optimizers/optimizers.h"
#include "thinwire/method/sparseloco.h"

namespace thinwire::method {
namespace {

std::vector<const Method*> list_methods() {
  std::vector<const Method*> methods;
  const auto add = [&](const Method& method) { methods.push_back(&method); };
  add(kAllReduce);
  add(kDistro);
  std::ranges::for_each(diloco_presets(), add);
  add(kSparseLoco);
  return methods;
}

}  // namespace

std::span<const Method* const> all_methods() {
  static const std::vector<const Method*> methods = list_methods();
  return methods;
}

const Method& find_method(std::string_view name) {
  config::StringList known;
  for (const Method* method : all_methods()) {
    if (method->name == name) return *method;
    known.emplace_back(method->name);
  }
  const std::string near = config::nearest_name(name, known);
  throw UsageError(fmt::format("[sync] method must be one of {}, got \"{}\"{}",
                               fmt::join(known, ", "), name,
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

schedule::Rounds rounds_of(const config::Recipe& recipe) {
  return {recipe.train.steps, find_method(recipe.sync.method).sync_every(recipe)};
}

config::MethodSections method_sections() {
  config::MethodSections sections;
  for (const Method* method : all_methods())
    sections[std::string(method->name)] = method->options();
  for (const OptimizerSpec* optimizer : all_optimizers()) {
    sections[std::string(optimizer->name)] = optimizer->options();
  }
  for (const Architecture* architecture : all_architectures()) {
    sections[std::string(architecture->name)] = architecture->options();
  }
  sections["relora"] = std::make_unique<ReloraOptions>();
  return sections;
}

namespace {

std::string local_update_methods() {
  std::vector<std::string_view> names;
  for (const Method* method : all_methods()) {
    if (method->local_updates) names.push_back(method->name);
  }
  return fmt::format("a method whose workers train independently ({})", fmt::join(names, ", "));
}

// Clusters need three fields together, so each message names all that are missing.
void check_clusters(const config::Recipe& recipe) {
  const config::SyncSection& sync = recipe.sync;
  const std::string range =
      fmt::format("clusters >= 1 and <= [train] workers = {}", recipe.train.workers);
  if (!sync.clustered()) {
    if (sync.clusters == 0) return;
    throw UsageError(fmt::format(
        "[sync] clusters = {} needs within = \"allreduce\" or \"distro\", got \"none\", and {}",
        sync.clusters, local_update_methods()));
  }
  if (!find_method(sync.method).local_updates) {
    throw UsageError(fmt::format(
        "[sync] within = \"{}\" needs {} and {}, got method = \"{}\", which synchronises all "
        "workers every step",
        sync.within, local_update_methods(), range, sync.method));
  }
  if (sync.clusters == 0) {
    throw UsageError(fmt::format("[sync] within = \"{}\" needs {}, got none", sync.within, range));
  }
  if (sync.clusters > recipe.train.workers) {
    throw UsageError(fmt::format("[sync] clusters must be <= [train] workers = {}, got {}",
                                 recipe.train.workers, sync.clusters));
  }
}

// Whether late contributions can count.
void check_late(const config::Recipe& recipe) {
  const config::SyncSection& sync = recipe.sync;
  if (sync.late == config::LateContributions::kDrop) return;
  if (!find_method(sync.method).sums_late) {
    std::vector<std::string_view> able;
    for (const Method* method : all_methods()) {
      if (method->sums_late) able.push_back(method->name);
    }
    throw UsageError(fmt::format("[sync] late = \"count\" needs method = {}, got \"{}\"",
                                 fmt::join(able, " or "), sync.method));
  }
  if (sync.aggregation().robust()) {
    throw UsageError(
        fmt::format("[sync] late = \"count\" needs aggregate = \"mean\", got \"{}\": "
                    "other rules compare contributions of one round",
                    name_of(sync.aggregate)));
  }
}

// Checks fields of [sync] that have a meaning only if workers train their own weights.
void check_sync_fields(const config::Recipe& recipe) {
  check_clusters(recipe);
  const config::SyncSection& sync = recipe.sync;
  if (find_method(sync.method).local_updates) return;
  const std::string needs =
      fmt::format("needs {}, got method = \"{}\", which synchronises all of them every step",
                  local_update_methods(), sync.method);
  if (sync.shares != config::RowShares::kEqual) {
    throw UsageError(
        fmt::format("[sync] shares = \"{}\" {}: there are no rounds of independent steps over "
                    "which workers' speeds could be measured and agreed on",
                    name_of(sync.shares), needs));
  }
  if (!sync.absent.empty()) {
    throw UsageError(fmt::format(
        "[sync] absent = [\"{}\"] {}: there are no rounds of independent steps to be absent from",
        fmt::join(sync.absent, "\", \""), needs));
  }
}

// An encoder learns classes or numbers and nothing else, and nothing else learns them.
void check_encoder(const config::Recipe& recipe) {
  const Architecture& architecture = find_architecture(recipe.model.architecture);
  const std::string& records = recipe.data.records;
  const bool numbers = records == "numbers", encoded = numbers || records == "labels";
  if (encoded && !architecture.encodes) {
    throw UsageError(
        fmt::format("[data] records = \"{}\" needs an encoder, [model] architecture = "
                    "\"roberta\", got \"{}\"",
                    records, architecture.name));
  }
  if (!encoded && architecture.encodes) {
    throw UsageError(
        fmt::format("[model] architecture = \"{}\" learns the classes of texts, or numbers: it "
                    "needs [data] records = \"labels\" or \"numbers\", got \"{}\"",
                    architecture.name, records));
  }
  if (!architecture.encodes) return;
  const int64_t positions = architecture.positions(ModelSpec(recipe));
  if (recipe.train.sequence > positions) {
    throw UsageError(fmt::format("[train] sequence must be <= [{}] positions = {}, got {}",
                                 architecture.name, positions, recipe.train.sequence));
  }
  const auto classes = static_cast<size_t>(architecture.outputs(ModelSpec(recipe)));
  if (numbers != (classes == 1)) {
    throw UsageError(fmt::format(
        "[{}] labels must be {} with [data] records = \"{}\", got {}", architecture.name,
        numbers ? "1, the number that is predicted," : ">= 2", records, classes));
  }
  if (recipe.data.labels.size() > classes) {
    throw UsageError(fmt::format("[{}] labels = {}, but [data] labels names {} classes",
                                 architecture.name, classes, recipe.data.labels.size()));
  }
  if (!recipe.eval.tasks.empty()) {
    throw UsageError(fmt::format(
        "[eval] tasks score the likelihood of texts, which [model] architecture = \"{}\" does not "
        "give; data.validation_text names sets whose accuracy is measured",
        architecture.name));
  }
}

}  // namespace

config::Recipe load_recipe(const std::filesystem::path& path,
                           std::span<const std::string> overrides) {
  return config::load_recipe(path, overrides, method_sections(), [](const config::Recipe& recipe) {
    if (recipe.train.init.empty()) check_choices(recipe);
  });
}

void check_choices(const config::Recipe& recipe) {
  find_architecture(recipe.model.architecture).check(ModelSpec(recipe));
  check_encoder(recipe);
  check_sync_fields(recipe);
  check_late(recipe);
  check_aggregate(recipe);
  find_method(recipe.sync.method).check(recipe);
  find_optimizer(recipe.optim.method).check(recipe);
  check_updates(recipe);
  check_formats(recipe);
  check_offload(recipe);
  check_adapter(recipe);
}

}  // namespace thinwire::method
