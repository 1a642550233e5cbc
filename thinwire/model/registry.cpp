#include "thinwire/model/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"
#include "thinwire/method/architectures.h"
#include "thinwire/model/llama.h"

namespace thinwire::model {
namespace {

constexpr std::array kModels = {
    ModelEntry{"llama", make_llama, make_llama_decoder, llama_decoder_memory},
};

const ModelEntry& find_model(const config::ModelSection& model) {
  const method::Architecture& architecture = method::find_architecture(model.architecture);
  const auto found = std::ranges::find(kModels, architecture.name, &ModelEntry::name);
  if (found == kModels.end()) {
    throw Error(fmt::format("nothing computes the architecture {}", architecture.name));
  }
  return *found;
}

const ModelEntry& find_decoder(const config::ModelSection& model) {
  const ModelEntry& entry = find_model(model);
  if (entry.make_decoder == nullptr) {
    throw Error(fmt::format("a model of the architecture {} continues no text", entry.name));
  }
  return entry;
}

// Throws Error unless the layout is the model's.
void check_layout(const config::ModelSection& model, const tensor::Layout& layout) {
  method::find_architecture(model.architecture).check(model);
  const std::vector<TensorSpec> expected = method::tensors_of(model);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i < layout.size() && layout.specs()[i].name == expected[i].name &&
        layout.specs()[i].shape == expected[i].shape) {
      continue;
    }
    throw Error(fmt::format("the parameters are another model's: expected {} as tensor {}",
                            expected[i].name, i));
  }
}

}  // namespace

std::span<const ModelEntry> all_models() { return kModels; }

std::unique_ptr<Model> make_model(const ModelParts& parts) {
  check_layout(parts.model, parts.layout);
  return find_model(parts.model).make(parts);
}

std::unique_ptr<Decoder> make_decoder(const DecoderParts& parts) {
  if (parts.context < 1) {
    throw Error(fmt::format("the context must be >= 1 token, got {}", parts.context));
  }
  check_layout(parts.model, parts.params.layout());
  return find_decoder(parts.model).make_decoder(parts);
}

std::vector<MemoryPart> decoder_memory(const config::ModelSection& model, int64_t context,
                                       int threads) {
  return find_decoder(model).decoder_memory(model, context, threads);
}

}  // namespace thinwire::model
