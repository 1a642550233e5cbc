#include "thinwire/convert/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string_view>
#include <utility>

#include "thinwire/architectures/external/external_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/memory.h"
#include "thinwire/checkpoint/adapter_base.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/folder_claim.h"
#include "thinwire/checkpoint/resume_rules.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/hf_folder.h"
#include "thinwire/convert/hf_tokenizer.h"
#include "thinwire/convert/peft.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::convert {
namespace {

constexpr std::array kVocabularyFiles = {data::kSentencePieceFile, data::kByteFile,
                                         data::kTokenizerFile};

std::unique_ptr<data::Vocabulary> load_vocabulary(const fs::path& checkpoint) {
  for (const char* name : kVocabularyFiles) {
    if (fs::exists(checkpoint / name)) return data::Vocabulary::load_file(checkpoint / name);
  }
  return nullptr;
}

config::Recipe parse_recipe_of(const fs::path& folder, const std::string& text) {
  const std::string origin = (folder / checkpoint::kRecipeFile).string();
  if (text.empty()) throw Error(fmt::format("{} is missing or empty", origin));
  config::Recipe recipe = config::parse_recipe(text, origin, {}, method::method_sections());
  if (method::is_external(recipe)) {
    throw UsageError(fmt::format(
        "{} is of a program's own model, which only that program can compute (docs/embedding.md)",
        folder.string()));
  }
  return recipe;
}

// Recipes of older programs leave the vocabulary's size open.
void fill_vocab(config::ModelSection& model, const data::Vocabulary* vocabulary) {
  if (model.vocab == 0 && vocabulary != nullptr) model.vocab = vocabulary->size();
}

config::Recipe describe_checkpoint(const fs::path& folder) {
  const fs::path file = folder / checkpoint::kRecipeFile;
  config::Recipe recipe = parse_recipe_of(folder, fs::exists(file) ? read_text_file(file) : "");
  fill_vocab(recipe.model, load_vocabulary(folder).get());
  return recipe;
}

void require_no_base(const fs::path& folder, const fs::path& base) {
  if (base.empty()) return;
  throw Error(fmt::format("{} holds a whole model, which takes no base, got {}", folder.string(),
                          base.string()));
}

// Moves params that had to be read as a whole.
LoadedModel moved_into(LoadedModel loaded, const fs::path& origin, tensor::Arena* into) {
  if (into == nullptr) return loaded;
  loaded.digest = checkpoint::digest_weights(*loaded.params);
  params_to_read(loaded, origin, into).assign(*loaded.params);
  loaded.params.reset();
  loaded.layout.reset();
  return loaded;
}

LoadedModel load_checkpoint(const checkpoint::CheckpointReader& reader, const fs::path& base,
                            tensor::Arena* into) {
  const fs::path& folder = reader.folder();
  const config::Recipe recipe = recipe_of(reader);
  LoadedModel loaded;
  loaded.model = method::ModelSpec(recipe);
  // A row of preferences is two texts.
  const bool pairs = recipe.data.records == config::RecordKind::kPreferences;
  loaded.sequence = pairs ? (recipe.train.sequence + 1) / 2 : recipe.train.sequence;
  loaded.vocabulary = load_vocabulary(folder);
  loaded.origin = load_origin(folder);
  if (loaded.vocabulary != nullptr) {
    loaded.begin = reader.meta().step == 0
                       ? read_begin_token(folder, *loaded.vocabulary)
                       : begin_in_training(loaded.origin, *loaded.vocabulary, recipe.data.records);
  }
  fill_vocab(loaded.model, loaded.vocabulary.get());
  if (method::is_adapted(recipe.adapter)) {
    read_adapted(reader, recipe, base, loaded);
    return moved_into(std::move(loaded), folder, into);
  }
  require_no_base(folder, base);
  loaded.digest = reader.read_weights(params_to_read(loaded, folder, into));
  return loaded;
}

// The newest checkpoint of a run, named by its folder or by that of its checkpoints.
std::optional<fs::path> newest_of(const fs::path& path) {
  if (auto newest = checkpoint::newest_checkpoint(path / "checkpoints")) return newest;
  return checkpoint::newest_checkpoint(path);
}

// Why a folder of ours holds no model; empty for other folders.
std::string why_no_model_yet(const fs::path& folder) {
  using checkpoint::FolderOwner;
  const std::optional<FolderOwner> owner = checkpoint::owner_of(folder);
  if (owner == FolderOwner::kServe) {
    return "it is the coordinator's, of `thinwire serve`; the folders of members have the model, "
           "such as the folder runs/joined-… that `thinwire join` named when it began";
  }
  if (owner != FolderOwner::kTrain && owner != FolderOwner::kJoin) {
    const std::string runs =
        checkpoint::runs_within(folder, {FolderOwner::kTrain, FolderOwner::kJoin});
    return runs.empty() ? "" : "name one of its runs (newest first): " + runs;
  }
  return "its run has written no checkpoint yet; it writes one when it ends or is stopped "
         "(Ctrl-C), and as often as checkpoint.every or checkpoint.minutes say";
}

[[noreturn]] void throw_no_model(const fs::path& path) {
  const std::string_view expected =
      "expected a run folder with a checkpoint, a checkpoint (checkpoint.json), a Hugging Face "
      "folder (config.json) or a PEFT folder (adapter_config.json)";
  if (!file_exists(path)) {
    throw Error(
        fmt::format("{} holds no model: there is no such folder; {}", path.string(), expected));
  }
  const std::string why = why_no_model_yet(path);
  throw Error(fmt::format("{} holds no model: {}", path.string(), why.empty() ? expected : why));
}

}  // namespace

void allocate_params(LoadedModel& loaded, const fs::path& origin) {
  const auto tensors = method::tensors_of(loaded.model);
  const double bytes = sizeof(float) * static_cast<double>(method::arena_elements(tensors));
  std::string warning = check_memory({"the model in " + origin.string(), {{"weights", bytes}}, ""});
  if (!warning.empty()) loaded.notices.push_back(std::move(warning));
  loaded.layout = std::make_unique<tensor::Layout>(tensors);
  loaded.params = std::make_unique<tensor::Arena>(*loaded.layout);
}

void choose_weights(LoadedModel& loaded, DecodingWeights weights) {
  if (weights == DecodingWeights::kF32) return;
  const auto is_rounded = [](float value) {
    return (std::bit_cast<uint32_t>(value) & 0xffffu) == 0;
  };
  if (weights == DecodingWeights::kAuto &&
      !std::ranges::all_of(std::as_const(*loaded.params).all(), is_rounded)) {
    return;
  }
  auto rounded = std::make_unique<tensor::Arena>(*loaded.layout, WeightFormat::kBf16);
  rounded->assign(*loaded.params);
  loaded.params = std::move(rounded);
}

bool same_tensors(std::span<const TensorSpec> a, std::span<const TensorSpec> b) {
  return std::ranges::equal(a, b, [](const TensorSpec& one, const TensorSpec& other) {
    return one.name == other.name && one.shape == other.shape;
  });
}

tensor::Arena& params_to_read(LoadedModel& loaded, const fs::path& origin, tensor::Arena* into) {
  if (into == nullptr) {
    allocate_params(loaded, origin);
    return *loaded.params;
  }
  if (!same_tensors(method::tensors_of(loaded.model), into->layout().specs())) {
    throw Error(fmt::format("the model in {} has changed", origin.string()));
  }
  return *into;
}

std::unique_ptr<checkpoint::CheckpointReader> open_run(const fs::path& path) {
  if (checkpoint::is_checkpoint(path)) return std::make_unique<checkpoint::CheckpointReader>(path);
  const auto newest = newest_of(path);
  if (!newest) return nullptr;
  try {
    return std::make_unique<checkpoint::CheckpointReader>(*newest);
  } catch (const Error& damage) {
    const auto sound = checkpoint::newest_intact_before(*newest);
    throw Error(sound ? fmt::format("{}\nthe newest one that can be read is {}; name it instead of "
                                    "the run",
                                    damage.what(), sound->string())
                      : fmt::format("{}\nno older checkpoint of the run is intact", damage.what()));
  }
}

config::Recipe recipe_of(const checkpoint::CheckpointReader& reader) {
  return parse_recipe_of(reader.folder(), reader.recipe_text());
}

LoadedModel load_model(const fs::path& path, const fs::path& base, tensor::Arena* into) {
  if (const auto reader = open_run(path)) return load_checkpoint(*reader, base, into);
  if (is_peft_folder(path)) return moved_into(load_peft(path, base), path, into);
  if (!is_hf_folder(path)) throw_no_model(path);
  require_no_base(path, base);
  return load_hf(path, {}, 0, into);
}

namespace {

[[noreturn]] void refuse_factors(const fs::path& path) {
  throw UsageError(fmt::format(
      "{} holds factors, and the model that they belong to is elsewhere; merge them (`thinwire "
      "import` with --base, or `thinwire export`) and name the result",
      path.string()));
}

std::vector<fs::path> files_of(const checkpoint::CheckpointReader& reader) {
  const method::AdapterSpec adapter = recipe_of(reader).adapter;
  const method::AdapterFacts& facts = method::facts_of(adapter);
  if (method::is_adapted(adapter) && facts.has_base && !facts.merges)
    refuse_factors(reader.folder());
  if (reader.meta().workers > 0) {
    throw UsageError(fmt::format(
        "{} is a run's checkpoint, which also holds the state of its optimizer; export the model "
        "(`thinwire export`) and name the result",
        reader.folder().string()));
  }
  std::vector<fs::path> files = {reader.folder() / checkpoint::kMetaFile};
  for (const auto& [name, file] : reader.files()) files.push_back(reader.folder() / name);
  return files;
}

}  // namespace

std::vector<fs::path> model_files(const fs::path& path) {
  if (const auto reader = open_run(path)) return files_of(*reader);
  if (is_peft_folder(path)) refuse_factors(path);
  if (!is_hf_folder(path)) throw_no_model(path);
  std::vector<fs::path> files;
  for (const std::string& name : HfWeights(path).file_names()) files.push_back(path / name);
  for (const auto& [name, text] : read_origin(path)) files.push_back(path / name);
  for (const char* name : kVocabularyFiles) {
    if (is_file(path / name)) files.push_back(path / name);
  }
  return files;
}

// EOS, or none if the folder that the model came from puts none before texts. Records begin as the
// vocabulary says.
int32_t begin_in_training(const HfOrigin& origin, const data::Vocabulary& vocabulary,
                          config::RecordKind records) {
  if (records != config::RecordKind::kText) return vocabulary.begin();
  const bool nothing = origin.contains("config.json") && origin_begin_token(origin, vocabulary) < 0;
  return nothing ? -1 : vocabulary.eos();
}

int32_t begin_in_training(const fs::path& source, const data::Vocabulary& vocabulary,
                          config::RecordKind records) {
  return begin_in_training(source.empty() ? HfOrigin() : origin_of(source), vocabulary, records);
}

config::Recipe describe_model(const fs::path& path) {
  if (checkpoint::is_checkpoint(path)) return describe_checkpoint(path);
  if (const auto newest = newest_of(path)) return describe_checkpoint(*newest);
  if (is_peft_folder(path)) return describe_peft(path);
  if (is_hf_folder(path)) return describe_hf(path);
  throw_no_model(path);
}

}  // namespace thinwire::convert
