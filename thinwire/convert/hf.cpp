#include "thinwire/convert/hf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "thinwire/architectures/roberta/roberta_hf.h"
#include "thinwire/architectures/roberta/roberta_spec.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/base/units.h"
#include "thinwire/checkpoint/checkpoint.h"
#include "thinwire/checkpoint/staged_folder.h"
#include "thinwire/checkpoint/weights.h"
#include "thinwire/config/check.h"
#include "thinwire/convert/hf_architectures.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/convert/hf_folder.h"
#include "thinwire/convert/hf_tokenizer.h"
#include "thinwire/convert/peft.h"
#include "thinwire/data/tokenizer/tokenizer_vocabulary.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/method/registry.h"

namespace thinwire::convert {
namespace {

constexpr const char* kConfigFile = "config.json";

std::unique_ptr<data::Vocabulary> load_hf_vocabulary(const fs::path& dir, int64_t rows) {
  std::unique_ptr<data::Vocabulary> vocabulary = data::Vocabulary::find_in(dir);
  if (vocabulary != nullptr && vocabulary->size() > rows) {
    throw Error(fmt::format(
        "{} has {} pieces, but vocab_size in {} is {}: it is the tokenizer of another model; "
        "expected at most {} pieces",
        vocabulary->file().string(), vocabulary->size(), kConfigFile, rows, rows));
  }
  return vocabulary;
}

constexpr int64_t kCheckedValues = 1 << 20;  // at a time

// Throws Error if any value is NaN or infinite.
void require_finite(const fs::path& dir, const tensor::Arena& params) {
  const auto specs = params.layout().specs();
  std::vector<float> piece;
  for (size_t i = 0; i < specs.size(); ++i) {
    const int64_t all = specs[i].count();
    int64_t wrong = 0, first = 0;
    float example = 0;
    for (int64_t at = 0; at < all; at += kCheckedValues) {
      piece.resize(static_cast<size_t>(std::min(kCheckedValues, all - at)));
      params.read(params.layout().offset(i) + at, piece);
      for (size_t k = 0; k < piece.size(); ++k) {
        if (std::isfinite(piece[k])) continue;
        if (wrong++ > 0) continue;
        first = at + static_cast<int64_t>(k);
        example = piece[k];
      }
      params.release(params.layout().offset(i) + at, static_cast<int64_t>(piece.size()));
    }
    if (wrong == 0) continue;
    throw Error(
        fmt::format("cannot import {}: {} holds values that are not finite, {} of {}, the first of "
                    "them {} at index {}; expected the weights of a model that did not diverge, in "
                    "a format that can represent them",
                    dir.string(), specs[i].name, wrong, all, without_nan_sign(example), first));
  }
}

// Adds the vocabulary's files to an imported checkpoint.
Notes add_vocabulary(const fs::path& hf_dir, const LoadedModel& loaded,
                     checkpoint::CheckpointWriter& writer) {
  const data::Vocabulary* vocabulary = loaded.vocabulary.get();
  if (vocabulary == nullptr) {
    return {fmt::format(
        "{} has no {}, {} or {} with {}, so the imported model has no vocabulary; it "
        "can be exported, and trained on data with the same vocabulary.",
        hf_dir.string(), kTokenizerModel, kTokenizerJson, data::kVocabFile, data::kMergesFile)};
  }
  writer.add_text(vocabulary->stored_name(), vocabulary->stored_text());
  writer.add_text(kTokenizerConfigFile,
                  print_json(print_tokenizer_config(*vocabulary, loaded.sequence, loaded.begin),
                             {.indent = 2}) +
                      "\n");
  Notes notes = tokenizer_notes(loaded.origin, *vocabulary);
  if (vocabulary->size() < loaded.model.vocab) {
    notes.push_back(fmt::format(
        "{} has {} pieces and the model's embedding {} rows: the last {} are assumed to be "
        "padding, which no text uses.",
        vocabulary->file().string(), vocabulary->size(), loaded.model.vocab,
        loaded.model.vocab - vocabulary->size()));
  }
  return notes;
}

// A recipe with defaults for everything but the model, so that the folder can be read like any
// checkpoint.
config::Recipe imported_recipe(const HfConfig& config) {
  config::Recipe recipe = config::read_recipe({}, method::method_sections());
  recipe.run.name = "imported";
  method::set_model(recipe, config.model);
  recipe.train.sequence = config.sequence;
  const method::Architecture& architecture = method::find_architecture(config.model.architecture);
  if (architecture.encodes) {
    recipe.data.records = architecture.outputs(config.model) == 1 ? config::RecordKind::kNumbers
                                                                  : config::RecordKind::kLabels;
  }
  return recipe;
}

HfConfig read_config(const fs::path& hf_dir) {
  if (!is_hf_folder(hf_dir)) {
    const bool is_run = checkpoint::is_checkpoint(hf_dir) ||
                        checkpoint::newest_checkpoint(hf_dir / "checkpoints").has_value();
    throw Error(fmt::format("{} is not a Hugging Face folder: it has no {}{}", hf_dir.string(),
                            kConfigFile,
                            is_run ? "; it is a run of Thinwire already and needs no import" : ""));
  }
  return read_hf_config(hf_dir / kConfigFile);
}

// Whether an encoder is to get a new head; throws Error if it needs one, UsageError if it has one.
bool draws_head(const fs::path& hf_dir, const method::ModelSpec& model, const HfWeights& weights,
                int64_t labels) {
  const bool encodes = method::find_architecture(model.architecture).encodes;
  const bool lacks = encodes && !weights.has_head(model);
  if (lacks && labels == 0) {
    throw Error(
        fmt::format("{} has no classification head; `thinwire import {} OUT --labels N` "
                    "draws one for N classes",
                    hf_dir.string(), hf_dir.string()));
  }
  if (!lacks && labels != 0) {
    throw UsageError(fmt::format(
        "--labels = {}: {} {}", labels, hf_dir.string(),
        encodes ? "has a classification head; only an encoder without one gets a new one"
                : "is no encoder, and only encoders have a classification head"));
  }
  return lacks;
}

// Initial values, always the same, for the tensors that the files lack.
void draw_head(LoadedModel& loaded, const checkpoint::TensorFiles& files) {
  const method::Architecture& architecture = method::find_architecture(loaded.model.architecture);
  const auto specs = loaded.layout->specs();
  ThreadPool calling(1);
  for (size_t i = 0; i < specs.size(); ++i) {
    if (files.contains(specs[i].name)) continue;
    const method::InitialValues initial = architecture.initial(loaded.model, specs[i]);
    tensor::draw_normal(*loaded.params, i, /*seed=*/0, initial.mean, initial.deviation, calling);
  }
}

}  // namespace

bool is_hf_folder(const fs::path& folder) { return is_file(folder / kConfigFile); }

config::Recipe describe_hf(const fs::path& hf_dir) { return imported_recipe(read_config(hf_dir)); }

LoadedModel load_hf(const fs::path& hf_dir, const checkpoint::TensorProgress& progress,
                    int64_t labels, tensor::Arena* into) {
  HfConfig config = read_config(hf_dir);
  HfWeights weights(hf_dir);
  const bool draws = draws_head(hf_dir, config.model, weights, labels);
  const checkpoint::TensorFiles files = weights.select(config.model);
  LoadedModel loaded;
  loaded.origin = read_origin(hf_dir);
  if (draws) {
    config.model.options<method::RobertaOptions>().labels = labels;
    loaded.origin[kConfigFile] = with_classes(loaded.origin.at(kConfigFile), labels);
  }
  loaded.model = config.model;
  loaded.sequence = config.sequence;
  loaded.vocabulary = load_hf_vocabulary(hf_dir, config.model.vocab);
  tensor::Arena& params = params_to_read(loaded, hf_dir, into);
  if (draws) draw_head(loaded, files);
  loaded.digest = checkpoint::read_weights(files, params, progress);
  require_finite(hf_dir, params);
  if (loaded.vocabulary != nullptr) {
    loaded.begin = origin_begin_token(loaded.origin, *loaded.vocabulary);
  }
  return loaded;
}

Notes import_hf(const fs::path& hf_dir, const fs::path& out_dir,
                const checkpoint::TensorProgress& reading,
                const checkpoint::TensorProgress& writing, const fs::path& base, int64_t labels) {
  checkpoint::require_absent(out_dir);
  const LoadedModel loaded =
      is_peft_folder(hf_dir) ? load_model(hf_dir, base) : load_hf(hf_dir, reading, labels);
  checkpoint::CheckpointWriter writer(out_dir);
  writer.write_weights(*loaded.params, writing);
  writer.add_text(
      checkpoint::kRecipeFile,
      config::print_recipe(imported_recipe({loaded.model, loaded.sequence, {}, nullptr})));
  writer.add_text(kOriginFile, print_origin(loaded.origin));
  Notes notes = loaded.notices;
  for (std::string& note : add_vocabulary(hf_dir, loaded, writer)) notes.push_back(std::move(note));
  if (method::find_architecture(loaded.model.architecture).encodes) {
    notes.emplace_back("Training uses no dropout, whatever config.json says.");
  }
  writer.commit({}, 0);
  return notes;
}

}  // namespace thinwire::convert
