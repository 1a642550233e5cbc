#include "thinwire/convert/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "thinwire/architectures/roberta/roberta_hf.h"
#include "thinwire/base/error.h"
#include "thinwire/base/json.h"
#include "thinwire/convert/hf_architectures.h"
#include "thinwire/method/architectures/architecture.h"

namespace thinwire::convert {
namespace {

using Json = nlohmann::json;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kRotaryBuffer = ".rotary_emb.inv_freq";

Json read_weight_map(const fs::path& path) {
  const std::string text = read_text_file(path);
  const Json json = try_parse_json<Json>(text);
  if (json.is_discarded()) {
    throw Error(
        fmt::format("cannot read {}: it is {}", path.string(), json_fault(text, "not JSON")));
  }
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    throw Error(fmt::format("{} is not an index of safetensors files: it has no object weight_map",
                            path.string()));
  }
  return json["weight_map"];
}

// A shard must be in the folder of its index: paths are refused, so that nothing outside is opened.
std::string shard_name(const fs::path& index, const std::string& tensor, const Json& file) {
  std::string name = file.is_string() ? file.get<std::string>() : std::string();
  if (name.empty() || name == ".." || fs::path(name).filename() != name) {
    throw Error(
        fmt::format("{}: the file of tensor {} is not a file name", index.string(), tensor));
  }
  return name;
}

// In an encoder, its classifier.
bool is_of_head(const TensorSpec& tensor) { return tensor.layer == kNoLayer; }

}  // namespace

bool equal_bytes(const TensorView& a, const TensorView& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         (a.bytes() == 0 || std::memcmp(a.data, b.data, static_cast<size_t>(a.bytes())) == 0);
}

std::string name_of(TensorRole role, method::ModelSpec model) {
  model.tied = false;
  for (const TensorSpec& tensor : method::tensors_of(model)) {
    if (tensor.role == role) return tensor.name;
  }
  return {};
}

HfWeights::HfWeights(const fs::path& folder) : folder_(folder) {
  if (file_exists(folder_ / kSingleFile)) {
    shards_.emplace(kSingleFile, folder_ / kSingleFile);
    files_ = checkpoint::tensors_of(shards_.at(kSingleFile));
  } else if (file_exists(folder_ / kIndexFile)) {
    open_shards(folder_ / kIndexFile);
  } else {
    throw Error(fmt::format("{} has neither {} nor {}; other weight formats cannot be imported",
                            folder_.string(), kSingleFile, kIndexFile));
  }
  if (files_.contains(kBareEmbedding)) add_encoder_prefix();
}

std::vector<std::string> HfWeights::file_names() const {
  std::vector<std::string> names;
  for (const auto& [name, shard] : shards_) names.push_back(name);
  if (!shards_.contains(kSingleFile)) names.emplace_back(kIndexFile);
  return names;
}

void HfWeights::open_shards(const fs::path& index) {
  const Json weight_map = read_weight_map(index);
  for (const auto& [tensor, file] : weight_map.items()) {
    const std::string name = shard_name(index, tensor, file);
    if (!file_exists(folder_ / name)) {
      throw Error(fmt::format("{} is missing; {} lists it", (folder_ / name).string(), kIndexFile));
    }
    const auto shard = shards_.try_emplace(name, folder_ / name).first;
    shard->second.find(tensor);
    files_.emplace(tensor, &shard->second);
  }
}

void HfWeights::add_encoder_prefix() {
  for (auto& [file, shard] : shards_) shard.prefix_names(kEncoderPrefix);
  checkpoint::TensorFiles prefixed;
  for (const auto& [tensor, file] : files_) prefixed.emplace(kEncoderPrefix + tensor, file);
  files_ = std::move(prefixed);
}

bool HfWeights::has_head(const method::ModelSpec& model) const {
  return std::ranges::any_of(method::tensors_of(model), [&](const TensorSpec& tensor) {
    return is_of_head(tensor) && files_.contains(tensor.name);
  });
}

checkpoint::TensorFiles HfWeights::select_encoder(const method::ModelSpec& model,
                                                  checkpoint::TensorFiles selected) const {
  std::erase_if(selected, [](const auto& file) { return is_left_out(file.first); });
  std::vector<TensorSpec> expected = method::tensors_of(model);
  if (!has_head(model)) std::erase_if(expected, is_of_head);
  checkpoint::check_weights(folder_, selected, expected);
  return selected;
}

// Files that were written without the second of two tied tensors may lack the embedding.
void HfWeights::take_head_for_embedding(const method::ModelSpec& model) {
  const std::string head = name_of(TensorRole::kHead, model);
  const std::string embedding = name_of(TensorRole::kEmbedding, model);
  const auto found = files_.find(head);
  if (!model.tied || found == files_.end() || files_.contains(embedding)) return;
  for (auto& [file, shard] : shards_) {
    if (&shard != found->second) continue;
    shard.rename(head, embedding);
    files_.emplace(embedding, &shard);
    files_.erase(head);
    return;
  }
}

checkpoint::TensorFiles HfWeights::select(const method::ModelSpec& model) {
  take_head_for_embedding(model);
  checkpoint::TensorFiles selected = files_;
  std::erase_if(selected, [](const auto& file) { return file.first.ends_with(kRotaryBuffer); });
  if (method::find_architecture(model.architecture).encodes) {
    return select_encoder(model, std::move(selected));
  }
  const auto head = selected.find(name_of(TensorRole::kHead, model));
  const auto embedding = selected.find(name_of(TensorRole::kEmbedding, model));
  if (model.tied && head != selected.end() && embedding != selected.end()) {
    if (!equal_bytes(head->second->find(head->first), embedding->second->find(embedding->first))) {
      throw Error(
          fmt::format("{}: {} differs from {}, but config.json has tie_word_embeddings = "
                      "true",
                      folder_.string(), head->first, embedding->first));
    }
    selected.erase(head);
  }
  checkpoint::check_weights(folder_, selected, method::tensors_of(model));
  return selected;
}

}  // namespace thinwire::convert
