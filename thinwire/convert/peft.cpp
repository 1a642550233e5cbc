#include "thinwire/convert/peft.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "thinwire/base/error.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/staged_folder.h"
#include "thinwire/convert/hf_folder.h"
#include "thinwire/method/architectures/architecture.h"
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
  adapter.kind = method::AdapterKind::kLora;
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

// Fills the arena from tensors of the same names after a prefix; there must be no others but
// `copy`, the name of one that is left out.
void read_prefixed(const tensor::SafetensorsReader& file, std::string_view prefix,
                   tensor::Arena& trained, const std::string& copy = {}) {
  std::vector<TensorSpec> expected(trained.layout().specs().begin(),
                                   trained.layout().specs().end());
  for (TensorSpec& spec : expected) spec.name = std::string(prefix) + spec.name;
  checkpoint::TensorFiles files = checkpoint::tensors_of(file);
  files.erase(copy);
  checkpoint::check_weights(file.path(), files, expected);
  for (size_t i = 0; i < expected.size(); ++i) file.read_f32(expected[i].name, trained.tensor(i));
}

const fs::path& require_tensors(const fs::path& file) {
  if (file_exists(file)) return file;
  throw Error(fmt::format("{} is missing; other formats of factors cannot be read", file.string()));
}

// The trained tensors of a run or a PEFT folder, wherever they are.
struct FactorSource {
  explicit FactorSource(const fs::path& path) : reader(open_run(path)) {
    if (reader != nullptr) {
      adapter = recipe_of(*reader).adapter;
      folder = reader->folder();
      if (adapter.kind == method::AdapterKind::kLora) return;
      throw Error(fmt::format("{} is a run with adapter.kind = \"{}\", not \"lora\"", path.string(),
                              thinwire::name_of(adapter.kind)));
    }
    if (!is_peft_folder(path)) {
      throw Error(
          fmt::format("{} holds no factors: expected a run with adapter.kind=lora, or a PEFT "
                      "folder ({})",
                      path.string(), kPeftConfigFile));
    }
    folder = path;
    config = read_peft_config(path / kPeftConfigFile);
    file = std::make_unique<tensor::SafetensorsReader>(require_tensors(path / kTensorFile));
    adapter = adapter_of(config, *file);
  }

  // Whether embedding and head of this base, which are one tensor, are two with what was trained.
  bool unties(const method::ModelSpec& base) const {
    if (reader != nullptr || !base.tied) return false;
    const auto [embedding, head] = tied_names(base);
    if (file->contains(embedding) && file->contains(head)) {
      return !equal_bytes(file->find(embedding), file->find(head));
    }
    return (file->contains(embedding) && is_own(embedding)) ||
           (file->contains(head) && is_own(head));
  }

  void read(const method::ModelSpec& model, tensor::Arena& trained) const {
    if (reader != nullptr) return read_prefixed(reader->weights(), "", trained);
    const auto [embedding, head] = tied_names(model);
    const bool twice = model.tied && file->contains(embedding);
    read_prefixed(*file, kPrefix, trained, twice ? head : "");
  }

  // The names that embedding and head have in the file.
  static std::pair<std::string, std::string> tied_names(const method::ModelSpec& model) {
    const std::string prefix(kPrefix);
    return {prefix + name_of(TensorRole::kEmbedding, model),
            prefix + name_of(TensorRole::kHead, model)};
  }

  // Whether PEFT makes a copy of the module with this weight, which only that module uses.
  bool is_own(std::string_view tensor) const {
    const std::string module = module_of(tensor);
    return !config.ties && std::ranges::any_of(config.whole, [&](const std::string& name) {
      return module.ends_with("." + name);
    });
  }

  std::unique_ptr<checkpoint::CheckpointReader> reader;  // of a run
  std::unique_ptr<tensor::SafetensorsReader> file;       // of a PEFT folder
  PeftConfig config;                                     // likewise
  fs::path folder;
  method::AdapterSpec adapter;
};

// Gives a model whose head is its embedding a head of its own, with the same values.
void untie(LoadedModel& loaded, const fs::path& origin) {
  const auto layout = std::move(loaded.layout);
  const auto params = std::move(loaded.params);
  loaded.model.tied = false;
  allocate_params(loaded, origin);
  checkpoint::copy_common(*params, *loaded.params);
  const size_t head = loaded.layout->find(name_of(TensorRole::kHead, loaded.model));
  const size_t embedding = layout->find(name_of(TensorRole::kEmbedding, loaded.model));
  std::ranges::copy(std::as_const(*params).tensor(embedding), loaded.params->tensor(head).begin());
}

void check_base_if_known(const fs::path& folder, const fs::path& base, uint64_t digest) {
  if (!fs::exists(folder / checkpoint::kAdapterBaseFile)) return;
  checkpoint::check_adapter_base(folder, checkpoint::read_adapter_base(folder), base, digest);
}

// A tensor under the name of what it is trained for.
struct WrittenTensor {
  std::string name;
  size_t index;  // in the layout
};

std::vector<WrittenTensor> written_tensors(const method::ModelSpec& model,
                                           const tensor::Layout& layout) {
  std::vector<WrittenTensor> tensors;
  for (size_t i = 0; i < layout.size(); ++i) tensors.push_back({layout.specs()[i].name, i});
  const auto embedding = layout.index_of(name_of(TensorRole::kEmbedding, model));
  if (model.tied && embedding) {
    tensors.push_back({name_of(TensorRole::kHead, model), *embedding});
  }
  return tensors;
}

// Short names where these mean the same matrices.
PeftModules modules_of(const method::ModelSpec& model, std::span<const WrittenTensor> trained) {
  std::set<std::string> with_factors, whole;
  PeftModules modules;
  for (const WrittenTensor& tensor : trained) {
    if (tensor.name.ends_with(".lora_A.weight")) {
      with_factors.insert(module_of(tensor.name, ".lora_A"));
    } else if (!tensor.name.ends_with(".lora_B.weight")) {
      const std::string module = whole_module(tensor.name);
      if (whole.insert(module).second) modules.whole.push_back(module);
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

void write_factors(const fs::path& path, const tensor::Arena& trained,
                   std::span<const WrittenTensor> tensors, DType dtype,
                   const checkpoint::TensorProgress& progress) {
  std::vector<tensor::SafetensorsEntry> entries;
  for (const WrittenTensor& tensor : tensors) {
    entries.push_back(
        {std::string(kPrefix) + tensor.name, trained.layout().specs()[tensor.index].shape});
  }
  tensor::SafetensorsWriter file(path, entries, dtype, {{"format", "pt"}});
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (progress) progress(i, tensors.size());
    file.write(trained.tensor(tensors[i].index));
  }
  if (progress) progress(tensors.size(), tensors.size());
  file.commit();
}

}  // namespace

bool is_peft_folder(const fs::path& folder) { return is_file(folder / kPeftConfigFile); }

fs::path peft_base(const fs::path& folder, const fs::path& base) {
  if (!base.empty()) return base;
  std::string named = read_peft_config(folder / kPeftConfigFile).base;
  if (!named.empty() && fs::is_directory(named)) return named;
  throw Error(
      fmt::format("the factors in {} belong to the model \"{}\" (base_model_name_or_path), which "
                  "is not a folder here; name its folder with --base",
                  folder.string(), named));
}

config::Recipe describe_peft(const fs::path& folder) {
  config::Recipe recipe = describe_model(peft_base(folder, {}));
  if (FactorSource(folder).unties(method::ModelSpec(recipe))) recipe.model.tied = false;
  return recipe;
}

LoadedModel load_peft(const fs::path& folder, const fs::path& base) {
  const FactorSource source(folder);
  const fs::path from = peft_base(folder, base);
  LoadedModel loaded = load_base(folder, from);
  check_base_if_known(folder, from, checkpoint::digest_weights(*loaded.params));
  if (source.unties(loaded.model)) untie(loaded, folder);
  const tensor::Layout layout(method::adapted_tensors(loaded.model, source.adapter).trained);
  tensor::Arena trained(layout);
  source.read(loaded.model, trained);
  merge_adapter(trained, source.adapter, loaded);
  return loaded;
}

void read_factors(const fs::path& path, const config::Recipe& recipe, uint64_t base_digest,
                  tensor::Arena& trained) {
  const FactorSource source(path);
  const method::AdapterSpec& adapter = recipe.adapter;
  const method::ModelSpec model(recipe);
  const auto require_same = [&](const char* field, auto ours, auto theirs) {
    if (ours == theirs) return;
    throw UsageError(fmt::format("[adapter] {} = {}, but the factors in {} have {}; set {} = {}",
                                 field, ours, path.string(), theirs, field, theirs));
  };
  require_same("rank", adapter.rank, source.adapter.rank);
  require_same("alpha", adapter.alpha, source.adapter.alpha);
  if (source.unties(model)) {
    throw Error(
        fmt::format("{} trains the embedding and the head apart, which are one tensor of this "
                    "model (model.tied = true); merge it into its base first (`thinwire import`), "
                    "and start from that (train.init)",
                    path.string()));
  }
  check_base_if_known(source.folder, "[train] init", base_digest);
  source.read(model, trained);
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
  source.read(model, trained);
  const std::vector<WrittenTensor> tensors = written_tensors(model, layout);
  const checkpoint::AdapterBase base = checkpoint::read_adapter_base(source.folder);
  const bool encodes = method::find_architecture(model.architecture).encodes;
  checkpoint::StagedFolder staged(out_dir);
  const fs::path& dir = staged.partial();
  write_factors(dir / kTensorFile, trained, tensors, dtype, progress);
  write_file(dir / kPeftConfigFile,
             print_peft_config({source.adapter.rank, source.adapter.alpha, base.model, encodes},
                               modules_of(model, tensors)));
  write_file(dir / checkpoint::kAdapterBaseFile, checkpoint::print_adapter_base(base));
  staged.publish();
}

}  // namespace thinwire::convert
