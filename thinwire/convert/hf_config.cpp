#include "thinwire/convert/hf_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "thinwire/base/error.h"
#include "thinwire/convert/hf_architectures.h"

namespace thinwire::convert {
namespace {

constexpr int64_t kMaxSequence = int64_t{1} << 24;  // as of train.sequence

std::optional<int64_t> read_bos(const HfFields& config) {
  const HfJson* bos = config.find("bos_token_id");
  if (bos == nullptr) return std::nullopt;
  if (!bos->is_number_integer()) {
    config.refuse("bos_token_id must be a whole number, got {}", bos->dump());
  }
  return bos->get<int64_t>();
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
  const HfJson json = HfJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw Error(fmt::format("cannot import {}: it is not a JSON object", path.string()));
  }
  const HfFields fields(path, json);
  const HfArchitecture& architecture = hf_architecture_of(fields);
  HfConfig result;
  result.model = architecture.read(fields);
  result.model.architecture = architecture.name;
  result.sequence = fields.find_count("max_position_embeddings", kMaxSequence).value_or(2048);
  result.bos = read_bos(fields);
  return result;
}

HfJson print_hf_config(const HfConfig& config, const SpecialTokens& tokens, DType dtype) {
  HfJson json = hf_architecture_of(config.model)
                    .print(config, dtype == DType::kBf16 ? "bfloat16" : "float32");
  json.update(special_ids(tokens));
  return json;
}

HfJson print_generation_config(const SpecialTokens& tokens) { return special_ids(tokens); }

}  // namespace thinwire::convert
