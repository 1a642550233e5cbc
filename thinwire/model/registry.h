// What computes each architecture of method/architectures.h.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "thinwire/base/memory.h"
#include "thinwire/model/decoder.h"
#include "thinwire/model/model.h"

namespace thinwire::model {

struct ModelEntry {
  std::string_view name;  // of method::Architecture
  MakeGraph graph;
  bool decodes;  // whether it continues a text
};

std::span<const ModelEntry> all_models();

// The model that parts.model.architecture names. Throws UsageError for a name that is not known and
// for shapes the model cannot have, Error for a layout of another model.
std::unique_ptr<Model> make_model(const ModelParts& parts);

// Likewise; Error where the architecture continues no text.
std::unique_ptr<Decoder> make_decoder(const DecoderParts& parts);
std::vector<MemoryPart> decoder_memory(const method::ModelSpec& model, int64_t context,
                                       int threads);

}  // namespace thinwire::model
