#include "thinwire/model/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "thinwire/base/error.h"
#include "thinwire/base/half.h"
#include "thinwire/base/memory.h"
#include "thinwire/method/adapters/adapter.h"
#include "thinwire/method/architectures/architecture.h"
#include "thinwire/model/cpu_ops.h"
#include "thinwire/model/decode_ops.h"
#include "thinwire/model/graph_model.h"
#include "thinwire/model/torch_ops.h"

namespace thinwire::model {
namespace {

constexpr std::array kModels = {
#define THINWIRE_ARCHITECTURE(Name) &k##Name,
#include "thinwire/architectures/architectures.inc"
#undef THINWIRE_ARCHITECTURE
};

const ModelEntry& find_model(const method::ModelSpec& model) {
  const method::Architecture& architecture = method::find_architecture(model.architecture);
  const auto* const found = std::ranges::find(kModels, architecture.name, &ModelEntry::name);
  if (found == kModels.end()) {
    throw Error(fmt::format("no model computes the architecture {}", architecture.name));
  }
  return **found;
}

std::unique_ptr<Ops> make_ops(const ModelParts& parts) {
  if (parts.placement) return make_torch_ops(parts);
  if (parts.precision == Precision::kBf16) return std::make_unique<CpuOps<Bf16>>(parts);
  return std::make_unique<CpuOps<float>>(parts);
}

// Throws Error unless the layout is that of `expected`.
void check_tensors(std::span<const TensorSpec> expected, const tensor::Layout& layout) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (i < layout.size() && layout.specs()[i].name == expected[i].name &&
        layout.specs()[i].shape == expected[i].shape) {
      continue;
    }
    throw Error(fmt::format("the parameters are another model's: expected {} as tensor {}",
                            expected[i].name, i));
  }
}

// The graph of the parts' model, which predicts text.
MakeGraph decoding_graph(const DecoderParts& parts) {
  const ModelEntry& entry = find_model(parts.model);
  if (!entry.decodes) {
    throw Error(fmt::format("a model of the architecture {} cannot generate text", entry.name));
  }
  method::find_architecture(parts.model.architecture).check(parts.model);
  check_tensors(method::tensors_of(parts.model), parts.params.layout());
  return entry.graph;
}

}  // namespace

std::span<const ModelEntry* const> all_models() { return kModels; }

std::unique_ptr<Model> make_model(const ModelParts& parts) {
  method::find_architecture(parts.model.architecture).check(parts.model);
  const method::AdaptedTensors expected = method::adapted_tensors(parts.model, parts.adapter);
  check_tensors(expected.trained, parts.layout);
  if (!expected.frozen.empty() || parts.frozen != nullptr) {
    check_tensors(expected.frozen,
                  parts.frozen == nullptr ? tensor::Layout({}) : parts.frozen->layout());
  }
  return std::make_unique<GraphModel>(parts, make_ops(parts), find_model(parts.model).graph);
}

std::unique_ptr<Decoder> make_decoder(const DecoderParts& parts) {
  return std::make_unique<Decoder>(parts, decoding_graph(parts));
}

std::unique_ptr<Scorer> make_scorer(const DecoderParts& parts) {
  return std::make_unique<Scorer>(parts, decoding_graph(parts));
}

std::string check_decoder_memory(const std::string& what, const DecoderParts& parts,
                                 const std::string& advice) {
  if (!parts.placement) {
    return check_memory(
        {what, DecodeOps::memory(parts.model, parts.context, parts.threads.size()), advice});
  }
  const MachineMemory there = tensor::device_memory(*parts.placement);
  return check_memory({what, torch_decoding_memory(parts), advice}, there);
}

}  // namespace thinwire::model
