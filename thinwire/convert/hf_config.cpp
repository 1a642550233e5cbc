#include "thinwire/convert/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_architectures.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::convert {
namespace {

constexpr int64_t kMaxSequence = int64_t{1} << 24;  // as of train.sequence

// Fields that do not affect the logits: names, file formats, how texts are generated, and what
// transformers writes into every config.json.
constexpr std::array<std::string_view, 63> kHarmless = {"_name_or_path",
                                                        "name_or_path",
                                                        "transformers_version",
                                                        "transformers.js_config",
                                                        "architectures",
                                                        "model_type",
                                                        "auto_map",
                                                        "torch_dtype",
                                                        "dtype",
                                                        "use_cache",
                                                        "use_bfloat16",
                                                        "torchscript",
                                                        "return_dict",
                                                        "return_dict_in_generate",
                                                        "output_attentions",
                                                        "output_hidden_states",
                                                        "output_scores",
                                                        "tokenizer_class",
                                                        "finetuning_task",
                                                        "task_specific_params",
                                                        "problem_type",
                                                        "id2label",
                                                        "label2id",
                                                        "num_labels",
                                                        "pad_token_id",
                                                        "sep_token_id",
                                                        "unk_token_id",
                                                        "decoder_start_token_id",
                                                        "forced_bos_token_id",
                                                        "forced_eos_token_id",
                                                        "prefix",
                                                        "pretraining_tp",
                                                        "is_llama_config",
                                                        "_attn_implementation_autoset",
                                                        "_attn_implementation",
                                                        "attn_implementation",
                                                        "unsloth_version",
                                                        "unsloth_fixed",
                                                        "max_length",
                                                        "min_length",
                                                        "do_sample",
                                                        "early_stopping",
                                                        "num_beams",
                                                        "num_beam_groups",
                                                        "diversity_penalty",
                                                        "temperature",
                                                        "top_k",
                                                        "top_p",
                                                        "typical_p",
                                                        "repetition_penalty",
                                                        "length_penalty",
                                                        "no_repeat_ngram_size",
                                                        "encoder_no_repeat_ngram_size",
                                                        "bad_words_ids",
                                                        "num_return_sequences",
                                                        "exponential_decay_length_penalty",
                                                        "suppress_tokens",
                                                        "begin_suppress_tokens",
                                                        "remove_invalid_values",
                                                        "max_sequence_length",
                                                        "model_max_length",
                                                        "tf_legacy_loss",
                                                        "is_decoder"};

bool is_token_id(const HfJson& value) { return value.is_number_integer(); }

std::optional<int64_t> read_bos(const HfFields& config) {
  const HfJson* bos = config.find("bos_token_id");
  if (bos == nullptr) return std::nullopt;
  if (!is_token_id(*bos)) {
    config.refuse("bos_token_id must be a whole number, got {}", print_json(*bos));
  }
  return bos->get<int64_t>();
}

// Several tokens may end a text.
void check_eos(const HfFields& config) {
  const HfJson* eos = config.find("eos_token_id");
  if (eos == nullptr || is_token_id(*eos)) return;
  if (eos->is_array() && std::ranges::all_of(*eos, is_token_id)) return;
  config.refuse("eos_token_id must be a whole number or a list of them, got {}", print_json(*eos));
}

// BOS and EOS as ids; null where there are none.
HfJson id_or_null(int32_t id) { return id < 0 ? HfJson() : HfJson(id); }

HfJson special_ids(const SpecialTokens& tokens) {
  return {{"bos_token_id", id_or_null(tokens.bos)},
          {"eos_token_id", id_or_null(tokens.eos)},
          {"pad_token_id", HfJson()}};
}

}  // namespace

HfConfig read_hf_config(const fs::path& path) {
  return parse_hf_config(read_text_file(path), path);
}

HfConfig parse_hf_config(const std::string& text, const fs::path& path) {
  const HfJson json = try_parse_json<HfJson>(text);
  if (!json.is_object()) {
    throw Error(fmt::format("cannot import {}: it is {}", path.string(), json_fault(text)));
  }
  const HfFields fields(path, json);
  const HfArchitecture& architecture = hf_architecture_of(fields);
  HfConfig result;
  result.model = architecture.read(fields);
  result.model.architecture = architecture.name;
  result.sequence =
      fields.find_count("max_position_embeddings", kMaxSequence).value_or(architecture.positions);
  const method::Architecture& computed = method::find_architecture(architecture.name);
  if (computed.encodes) result.sequence = computed.positions(result.model);
  result.bos = read_bos(fields);
  check_eos(fields);
  result.form = &architecture;
  fields.refuse_others(kHarmless);
  return result;
}

const char* torch_name(DType dtype) {
  if (dtype == DType::kF16) return "float16";
  return dtype == DType::kBf16 ? "bfloat16" : "float32";
}

HfJson print_hf_config(const HfConfig& config, const SpecialTokens& tokens, DType dtype) {
  const HfArchitecture& form =
      config.form != nullptr ? *config.form : hf_architecture_of(config.model);
  HfJson json = form.print(config, torch_name(dtype));
  HfJson ids = special_ids(tokens);
  if (json.contains("pad_token_id")) ids.erase("pad_token_id");
  json.update(ids);
  return json;
}

HfJson print_generation_config(const SpecialTokens& tokens) { return special_ids(tokens); }

}  // namespace thinwire::convert
