#include "thinwire/convert/peft.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/staged_folder.h"
#include "thinwire/convert/adapted.h"
#include "thinwire/convert/peft_config.h"
#include "thinwire/method/architectures/architectures.h"
#include "thinwire/tensor/files/safetensors.h"

namespace thinwire::convert {
namespace {

constexpr const char* kTensorFile = "adapter_model.safetensors";
constexpr std::string_view kPrefix = "base_model.model.";  // of all names in the file
constexpr std::string_view kSuffix = ".weight";

// The name of a module that has this tensor of a kind ("", ".lora_A") as its weight.
std::string module_of(std::string_view tensor, std::string_view kind = {}) {
  return std::string(tensor.substr(0, tensor.size() - kSuffix.size() - kind.size()));
}

std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// The part of an encoder's modules that PEFT trains in full whenever it classifies.
constexpr std::string_view kClassifier = "classifier";

// PEFT's name for what is trained in full with this tensor: its module, or an encoder's whole head.
std::string whole_module(const std::string& tensor) {
  if (tensor.starts_with(std::string(kClassifier) + ".")) return std::string(kClassifier);
  return tensor.substr(0, tensor.rfind('.'));
}

// What a folder's adapter is, with every name of its file as a pattern.
method::AdapterSpec adapter_of(const PeftConfig& config, const tensor::SafetensorsReader& file) {
  method::AdapterSpec adapter;
  adapter.kind = "lora";
  adapter.rank = config.rank;
  adapter.alpha = config.alpha;
  adapter.targets.clear();
  for (const std::string& name : file.names()) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string tensor = name.substr(kPrefix.size());
    if (tensor.ends_with(".lora_A.weight")) {
      adapter.targets.push_back(module_of(tensor, ".lora_A"));
    } else if (!tensor.ends_with(".lora_B.weight")) {
      adapter.whole.push_back(tensor.ends_with(kSuffix) ? module_of(tensor) : tensor);
    }
  }
  return adapter;
}

// Fills the arena from tensors of the same names after a prefix; there must be no others.
void read_prefixed(const tensor::SafetensorsReader& file, std::string_view prefix,
                   tensor::Arena& trained) {
  std::vector<TensorSpec> expected(trained.layout().specs().begin(),
                                   trained.layout().specs().end());
  for (TensorSpec& spec : expected) spec.name = std::string(prefix) + spec.name;
  checkpoint::check_weights(file.path(), checkpoint::tensors_of(file), expected);
  for (size_t i = 0; i < expected.size(); ++i) file.read_f32(expected[i].name, trained.tensor(i));
}

const fs::path& require_tensors(const fs::path& file) {
  if (fs::exists(file)) return file;
  throw Error(fmt::format("{} is missing; other formats of factors cannot be read", file.string()));
}

// The trained tensors of a run or a PEFT folder, wherever they are.
struct FactorSource {
  explicit FactorSource(const fs::path& path) : reader(open_run(path)) {
    if (reader != nullptr) {
      adapter = recipe_of(*reader).adapter;
      folder = reader->folder();
      if (adapter.kind == "lora") return;
      throw Error(fmt::format("{} is a run with adapter.kind = \"{}\", not \"lora\"", path.string(),
                              adapter.kind));
    }
    if (!is_peft_folder(path)) {
      throw Error(
          fmt::format("{} holds no factors: expected a run with adapter.kind = \"lora\", or a PEFT "
                      "folder ({})",
                      path.string(), kPeftConfigFile));
    }
    folder = path;
    file = std::make_unique<tensor::SafetensorsReader>(require_tensors(path / kTensorFile));
    adapter = adapter_of(read_peft_config(path / kPeftConfigFile), *file);
  }

  void read(tensor::Arena& trained) const {
    if (reader != nullptr) return read_prefixed(reader->weights(), "", trained);
    read_prefixed(*file, kPrefix, trained);
  }

  std::unique_ptr<checkpoint::CheckpointReader> reader;  // of a run
  std::unique_ptr<tensor::SafetensorsReader> file;       // of a PEFT folder
  fs::path folder;
  method::AdapterSpec adapter;
};

void check_base_if_known(const fs::path& folder, const fs::path& base, uint64_t digest) {
  if (!fs::exists(folder / checkpoint::kAdapterBaseFile)) return;
  checkpoint::check_adapter_base(folder, checkpoint::read_adapter_base(folder), base, digest);
}

// Short names where these mean the same matrices.
PeftModules modules_of(const method::ModelSpec& model, const tensor::Layout& trained) {
  std::set<std::string> with_factors;
  PeftModules modules;
  for (const TensorSpec& spec : trained.specs()) {
    if (spec.name.ends_with(".lora_A.weight")) {
      with_factors.insert(module_of(spec.name, ".lora_A"));
    } else if (!method::is_factor(spec)) {
      const std::string module = whole_module(spec.name);
      if (std::ranges::find(modules.whole, module) == modules.whole.end()) {
        modules.whole.push_back(module);
      }
    }
  }
  std::set<std::string> short_names;
  for (const std::string& module : with_factors) short_names.insert(last_part(module));
  const auto tensors = method::tensors_of(model);
  const bool all = std::ranges::all_of(tensors, [&](const TensorSpec& tensor) {
    const std::string module = module_of(tensor.name);
    return !short_names.contains(last_part(module)) || with_factors.contains(module);
  });
  const std::set<std::string>& names = all ? short_names : with_factors;
  modules.targets.assign(names.begin(), names.end());
  return modules;
}

void write_factors(const fs::path& path, const tensor::Arena& trained, DType dtype,
                   const checkpoint::TensorProgress& progress) {
  const auto specs = trained.layout().specs();
  std::vector<tensor::SafetensorsEntry> entries;
  for (const TensorSpec& spec : specs)
    entries.push_back({std::string(kPrefix) + spec.name, spec.shape});
  tensor::SafetensorsWriter file(path, entries, dtype, {{"format", "pt"}});
  for (size_t i = 0; i < specs.size(); ++i) {
    if (progress) progress(i, specs.size());
    file.write(trained.tensor(i));
  }
  if (progress) progress(specs.size(), specs.size());
  file.commit();
}

}  // namespace

bool is_peft_folder(const fs::path& folder) {
  return fs::is_regular_file(folder / kPeftConfigFile);
}

fs::path peft_base(const fs::path& folder, const fs::path& base) {
  if (!base.empty()) return base;
  const std::string named = read_peft_config(folder / kPeftConfigFile).base;
  if (!named.empty() && fs::is_directory(named)) return named;
  throw Error(
      fmt::format("the factors in {} belong to the model \"{}\" (base_model_name_or_path), which "
                  "is not a folder here; name its folder with --base",
                  folder.string(), named));
}

LoadedModel load_peft(const fs::path& folder, const fs::path& base) {
  const FactorSource source(folder);
  const fs::path from = peft_base(folder, base);
  LoadedModel loaded = load_base(folder, from);
  check_base_if_known(folder, from, checkpoint::digest_weights(*loaded.params));
  const tensor::Layout layout(method::adapted_tensors(loaded.model, source.adapter).trained);
  tensor::Arena trained(layout);
  source.read(trained);
  merge_adapter(trained, source.adapter, loaded);
  return loaded;
}

void read_factors(const fs::path& path, const method::AdapterSpec& adapter, uint64_t base_digest,
                  tensor::Arena& trained) {
  const FactorSource source(path);
  const auto require_same = [&](const char* field, auto ours, auto theirs) {
    if (ours == theirs) return;
    throw UsageError(fmt::format("[adapter] {} = {}, but the factors in {} have {}; set {} = {}",
                                 field, ours, path.string(), theirs, field, theirs));
  };
  require_same("rank", adapter.rank, source.adapter.rank);
  require_same("alpha", adapter.alpha, source.adapter.alpha);
  check_base_if_known(source.folder, "[train] init", base_digest);
  source.read(trained);
}

void export_peft(const fs::path& path, const fs::path& out_dir, DType dtype,
                 const checkpoint::TensorProgress& progress) {
  checkpoint::require_absent(out_dir);
  const FactorSource source(path);
  if (source.reader == nullptr) {
    throw Error(fmt::format("{} is a PEFT folder already", path.string()));
  }
  const config::Recipe recipe = recipe_of(*source.reader);
  const method::ModelSpec model(recipe);
  const tensor::Layout layout(method::adapted_tensors(model, source.adapter).trained);
  tensor::Arena trained(layout);
  source.read(trained);
  const checkpoint::AdapterBase base = checkpoint::read_adapter_base(source.folder);
  const bool encodes = method::find_architecture(model.architecture).encodes;
  checkpoint::StagedFolder staged(out_dir);
  const fs::path& dir = staged.partial();
  write_factors(dir / kTensorFile, trained, dtype, progress);
  write_file(dir / kPeftConfigFile,
             print_peft_config({source.adapter.rank, source.adapter.alpha, base.model, encodes},
                               modules_of(model, layout)));
  write_file(dir / checkpoint::kAdapterBaseFile, checkpoint::print_adapter_base(base));
  staged.publish();
}

}  // namespace thinwire::convert
