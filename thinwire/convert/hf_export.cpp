// Writing Hugging Face folders.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "thinwire/architectures/llama/llama_hf.h"
#include "thinwire/base/half.h"
#include "thinwire/base/json.h"
#include "thinwire/checkpoint/staged_folder.h"
#include "thinwire/checkpoint/weights.h"
#include "thinwire/convert/end_tokens.h"
#include "thinwire/convert/hf.h"
#include "thinwire/convert/hf_config.h"
#include "thinwire/convert/hf_origin.h"
#include "thinwire/convert/hf_tokenizer.h"

namespace thinwire::convert {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";
constexpr std::array kTypeNames = {"torch_dtype", "dtype"};  // of transformers 4 and 5
// Files that are exported as they were imported, whatever was trained.
constexpr std::array kUntouched = {
    "chat_template.jinja", "chat_template.json", "README.md", "LICENSE", "LICENSE.txt", "NOTICE"};

SpecialTokens special_tokens(const data::Vocabulary* vocabulary, int32_t begin) {
  if (vocabulary == nullptr) return {};
  return {begin >= 0 ? begin : vocabulary->bos(), vocabulary->eos()};
}

// How a model is exported, compared with how it was imported.
class Description {
 public:
  Description(const LoadedModel& loaded, DType dtype)
      : loaded_(loaded), now_{loaded.model, loaded.sequence, {}, nullptr}, dtype_(dtype) {
    const auto config = loaded.origin.find(kConfigFile);
    if (config == loaded.origin.end()) return;
    origin_ = config->second;
    before_ = parse_hf_config(origin_, kConfigFile);
    now_.form = before_.form;
    now_.model.init_std = before_.model.init_std;  // what no weight was drawn with
    now_.sequence = std::max(now_.sequence, before_.sequence);
    if (loaded.vocabulary != nullptr) {
      begin_before_ = origin_begin_token(loaded.origin, *loaded.vocabulary);
    }
  }

  HfJson config() const {
    const SpecialTokens tokens = special_tokens(loaded_.vocabulary.get(), loaded_.begin);
    HfJson now = print_hf_config(now_, tokens, dtype_);
    if (origin_.empty()) return now;
    const SpecialTokens tokens_before = special_tokens(loaded_.vocabulary.get(), begin_before_);
    HfJson before = print_hf_config(before_, tokens_before, dtype_);
    const HfJson origin = parse_json<HfJson>(origin_);
    keep_type(origin, before, now);
    if (loaded_.vocabulary == nullptr) return merged(before, now);
    // Ids that do not match the vocabulary were wrong in the first place.
    if (origin.value("bos_token_id", HfJson()) != tokens_before.bos) before.erase("bos_token_id");
    if (!names_ends(origin.value("eos_token_id", HfJson()), *loaded_.vocabulary)) {
      before.erase("eos_token_id");
    }
    return merged(before, now);
  }

  std::string generation(const HfJson& config) const {
    const data::Vocabulary* vocabulary = loaded_.vocabulary.get();
    HfJson now = print_generation_config(special_tokens(vocabulary, loaded_.begin));
    const auto origin = loaded_.origin.find(kGenerationFile);
    if (origin == loaded_.origin.end()) {
      for (auto& [name, id] : now.items()) id = config.value(name, HfJson());
      if (vocabulary != nullptr)
        now["eos_token_id"] = eos_for_generation(loaded_.origin, *vocabulary);
      return print_json(now, {.indent = 2}) + "\n";
    }
    HfJson before = print_generation_config(special_tokens(vocabulary, begin_before_));
    if (vocabulary != nullptr) {
      before.erase("eos_token_id");
      now["eos_token_id"] = eos_for_generation(loaded_.origin, *vocabulary);
    }
    return merge_json(origin->second, before, now);
  }

  TokenizerUse use_before() const { return {begin_before_, before_.sequence}; }
  TokenizerUse use_now() const { return {loaded_.begin, now_.sequence}; }

 private:
  // With the fields that the file left to transformers' defaults, which differ between its
  // versions.
  HfJson merged(const HfJson& before, const HfJson& now) const {
    HfJson config = parse_json<HfJson>(merge_json(origin_, before, now));
    for (const auto& [name, value] : now.items()) {
      if (!config.contains(name)) config[name] = value;
    }
    return config;
  }

  // The number format is always that of the weights written, under the names used in the imported
  // file.
  static void keep_type(const HfJson& origin, HfJson& before, HfJson& now) {
    const bool named =
        std::ranges::any_of(kTypeNames, [&](auto key) { return origin.contains(key); });
    for (const char* key : kTypeNames) {
      before.erase(key);
      if (named && !origin.contains(key)) now.erase(key);
    }
  }

  const LoadedModel& loaded_;
  std::string origin_;  // config.json as it came in; empty: the model is from no folder
  HfConfig before_;
  HfConfig now_;
  int32_t begin_before_ = -1;
  DType dtype_;
};

Notes write_byte_vocabulary(const fs::path& dir, const data::Vocabulary& vocabulary) {
  write_file(dir / data::kByteFile, read_text_file(vocabulary.file()));
  return {
      fmt::format("The model was trained on plain bytes, so there is no {}: token i < 256 is the "
                  "byte i, 256 is EOS, 257 is BOS (written down in {}).",
                  kTokenizerModel, data::kByteFile)};
}

// The files of an imported tokenizer that Thinwire did not read.
Notes write_unread_tokenizer(const fs::path& dir, const HfOrigin& origin) {
  if (!origin.contains(kTokenizerJson)) {
    return {
        "The source has no vocabulary, so there is no tokenizer and config.json names no BOS or "
        "EOS."};
  }
  for (const char* name :
       {kTokenizerJson, kTokenizerConfigFile, "special_tokens_map.json", "added_tokens.json"}) {
    if (const auto file = origin.find(name); file != origin.end()) {
      write_file(dir / name, file->second);
    }
  }
  return {};
}

Notes write_vocabulary(const fs::path& dir, const LoadedModel& loaded,
                       const Description& description) {
  if (loaded.vocabulary == nullptr) return write_unread_tokenizer(dir, loaded.origin);
  if (loaded.vocabulary->stored_name() == std::string(data::kByteFile)) {
    return write_byte_vocabulary(dir, *loaded.vocabulary);
  }
  return write_tokenizer(dir, *loaded.vocabulary, loaded.origin, description.use_before(),
                         description.use_now());
}

bool holds(DType dtype, float value) {
  return value == (dtype == DType::kBf16 ? round_to_bf16(value) : round_to_half(value));
}

// bf16 or fp16 if the model came in it and still has only values that it holds, else fp32.
DType format_as_imported(const LoadedModel& loaded) {
  const auto config = loaded.origin.find(kConfigFile);
  if (config == loaded.origin.end()) return DType::kF32;
  const HfJson origin = parse_json<HfJson>(config->second);
  const auto named = [&](DType dtype) {
    return std::ranges::any_of(
        kTypeNames, [&](auto key) { return origin.value(key, HfJson()) == torch_name(dtype); });
  };
  const auto is_exact = [&](DType dtype) {
    for (size_t i = 0; i < loaded.layout->specs().size(); ++i) {
      const auto exact = [&](float value) { return holds(dtype, value); };
      if (!std::ranges::all_of(std::as_const(*loaded.params).tensor(i), exact)) return false;
    }
    return true;
  };
  for (const DType dtype : {DType::kBf16, DType::kF16}) {
    if (named(dtype) && is_exact(dtype)) return dtype;
  }
  return DType::kF32;
}

bool is_misread_by_transformers(const HfJson& config, const fs::path& tokenizer) {
  return config.value("model_type", HfJson()) == kHfQwen2.model_type && fs::exists(tokenizer) &&
         !splits_as_qwen(read_text_file(tokenizer));
}

}  // namespace

Notes export_hf(const fs::path& source, const fs::path& out_dir, std::optional<DType> wanted,
                const checkpoint::TensorProgress& progress, const fs::path& base) {
  checkpoint::require_absent(out_dir);
  const LoadedModel loaded = load_model(source, base);
  const DType dtype = wanted ? *wanted : format_as_imported(loaded);
  const Description description(loaded, dtype);
  checkpoint::StagedFolder staged(out_dir);
  const fs::path& dir = staged.partial();
  checkpoint::write_weights(dir / "model.safetensors", *loaded.params, dtype, progress);
  const HfJson config = description.config();
  write_file(dir / kConfigFile, print_json(config, {.indent = 2}) + "\n");
  write_file(dir / kGenerationFile, description.generation(config));
  for (const char* name : kUntouched) {
    if (const auto file = loaded.origin.find(name); file != loaded.origin.end()) {
      write_file(dir / name, file->second);
    }
  }
  Notes notes = loaded.notices;
  for (std::string& note : write_vocabulary(dir, loaded, description)) {
    notes.push_back(std::move(note));
  }
  if (loaded.vocabulary != nullptr) {
    std::string note = turn_end_note(loaded.origin, *loaded.vocabulary);
    if (!note.empty()) notes.push_back(std::move(note));
  }
  if (is_misread_by_transformers(config, dir / kTokenizerJson)) {
    notes.emplace_back(
        "transformers 5 lets AutoTokenizer split the text of every Qwen2 model as Qwen's own "
        "tokenizer does, and so gives other tokens here; PreTrainedTokenizerFast.from_pretrained "
        "gives the right ones.");
  }
  staged.publish();
  return notes;
}

}  // namespace thinwire::convert
